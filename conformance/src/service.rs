//! The suite's service: it answers as each request defines.

use std::time::{Duration, Instant};

use buffa::{EnumValue, Message, MessageField, MessageName};
use tidewire::http::header::{HeaderName, HeaderValue};
use tidewire::http::{HeaderMap, Uri};
use tidewire::{Code, Context, Detail, Error, Reply, Result, Stream};

use crate::proto::connectrpc::conformance::v1::*;
