/** Kinds of frames, their flags, features and bounds (docs/live-protocol.md, section 1). */

export const HELLO = 1;
export const AUTH = 2;
export const REQUEST = 3;
export const REPLY = 4;
export const ERROR = 5;
export const ITEMS = 6;
export const STREAM_END = 7;
export const CANCEL = 8;
export const CREDIT = 9;
export const PING = 10;
export const PONG = 11;
export const GOAWAY = 12;
export const STALE = 13;
export const RESUME = 14;
export const RESUMED = 15;
export const READY = 16;
export const SEEN = 20;
export const DESCRIPTORS = 21;

export const END = 0x01;
export const ZSTD = 0x02;
export const HTTP = 0x04;
export const MORE = 0x08;
export const NOTIFY = 0x10;
export const VALUES = 0x20;
export const WATCHED = 0x10;
export const UNCHANGED = 0x20;
export const SUSPECT = 0x40;
export const KEEP = 0x10;

export const PAYLOAD_MAX = 65_536;
export const MAGIC = 0x564c5754;

export const WATCH_FEATURE = 4;
export const RESUME_FEATURE = 8;
export const DURABLE_FEATURE = 16;
