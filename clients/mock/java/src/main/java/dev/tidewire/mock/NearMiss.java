package dev.tidewire.mock;

import java.util.List;

/**
 * A call that no response with conditions answered.
 *
 * @param call the call
 * @param nearest the response that came nearest
 * @param misses what of it did not hold
 */
public record NearMiss(Call call, String nearest, List<String> misses) {}
