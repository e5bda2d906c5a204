/** Codes of errors: the numbers of connect-es' `Code`, which a bundler puts where they are used. */
import type { Code } from "@connectrpc/connect";

export const CODE_CANCELED: Code = 1;
export const CODE_UNKNOWN: Code = 2;
export const CODE_INVALID_ARGUMENT: Code = 3;
export const CODE_DEADLINE_EXCEEDED: Code = 4;
export const CODE_PERMISSION_DENIED: Code = 7;
export const CODE_RESOURCE_EXHAUSTED: Code = 8;
export const CODE_FAILED_PRECONDITION: Code = 9;
export const CODE_ABORTED: Code = 10;
export const CODE_UNIMPLEMENTED: Code = 12;
export const CODE_INTERNAL: Code = 13;
export const CODE_UNAVAILABLE: Code = 14;
export const CODE_UNAUTHENTICATED: Code = 16;
