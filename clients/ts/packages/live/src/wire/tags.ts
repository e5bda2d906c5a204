/** Fields of metadata (docs/live-protocol.md, section 2). */

export const METHOD = 1;
export const NAME = 2;
export const COMMAND = 3;
export const VALIDATOR = 4;
export const MAX_AGE = 5;
export const TOKEN = 6;
export const TRAILERS = 7;
export const CODE = 8;
export const MESSAGE = 9;
export const DETAIL = 10;
export const OUTCOME = 11;
export const DEPENDS = 15;
export const REASON = 16;
export const KEY = 18;
export const AFTER = 20;
export const EXPIRES = 21;
