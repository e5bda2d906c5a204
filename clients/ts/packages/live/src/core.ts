/**
 * What the entry points share. The build makes one module of it, so that what is loaded later, and
 * replicas, add only what is theirs. Not for applications.
 */
export { createLiveTransport } from "./transport/transport.ts";
export { abortError, isNotRun, isOutcomeUnknown, markAborted, toError, withOutcome } from "./transport/errors.ts";
export { appendHeaders, encodeHeaders } from "./transport/headers.ts";
export { whileAllowed } from "./transport/lazy.ts";
export { decode, encode, kindOf, pathOf } from "./transport/method.ts";
export { apart } from "./socket/apart.ts";
export { NOT_RUN, UNKNOWN } from "./session/event.ts";
export { PASSING, POLL } from "./transport/watch.ts";
export { EMPTY } from "./wire/frame.ts";
export { utf8, utf8Bytes } from "./wire/metadata.ts";
export { INTERNAL } from "./wire/reason.ts";
export { bytesOf, latin1, Reader, Writer } from "./wire/varint.ts";
