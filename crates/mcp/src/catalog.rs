//! Which tools there are: a name for assistants, and the method that it means.
//!
//! A method that is not here cannot be called. Whether a tool only looks is not said here but by
//! the scopes of its method.

use crate::load;

/// A tool, and what it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) does: ToolAction,
    /// Whether its result has words of callers, of logs or of files in it.
    pub(crate) untrusted: bool,
    /// Whether it is there only beside a mock.
    pub(crate) mock: bool,
    /// What its method does not say of itself.
    pub(crate) hint: &'static str,
}

/// What a tool does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolAction {
    /// Calls a method, `Calls/List`.
    Method(&'static str),
    /// Calls the method of a service that the argument `action` names.
    Action { service: &'static str, actions: &'static [&'static str], like: &'static str },
    /// Calls a method of the program itself, and waits for what comes back.
    ByHand,
    /// Starts load on the program, and waits for its end.
    Load,
    /// As a method, with the names of arguments and of the result that wishmock has.
    Wishmock { method: &'static str, arguments: &'static [(&'static str, &'static str)] },
    /// Puts a text into a file whatever is there: its etag is asked for first.
    Overwrite { get: &'static str, put: &'static str },
    /// Examples of rules.
    Examples,
}

const fn looks(name: &'static str, method: &'static str) -> Verb {
    Verb { name, does: ToolAction::Method(method), untrusted: false, mock: false, hint: "" }
}

const fn tells(name: &'static str, method: &'static str, hint: &'static str) -> Verb {
    Verb { name, does: ToolAction::Method(method), untrusted: true, mock: false, hint }
}

const fn mocks(name: &'static str, method: &'static str, hint: &'static str) -> Verb {
    Verb { name, does: ToolAction::Method(method), untrusted: true, mock: true, hint }
}

const fn wishmock(
    name: &'static str,
    method: &'static str,
    arguments: &'static [(&'static str, &'static str)],
) -> Verb {
    let does = ToolAction::Wishmock { method, arguments };
    Verb { name, does, untrusted: true, mock: true, hint: "By the name that wishmock has for it." }
}

const fn overwrites(name: &'static str, get: &'static str, put: &'static str) -> Verb {
    let does = ToolAction::Overwrite { get, put };
    Verb { name, does, untrusted: true, mock: true, hint: "By the name that wishmock has for it." }
}

/// The actions of `process_act`.
const ACTIONS: &[&str] = &["Start", "Stop", "Restart", "Freeze", "Thaw", "CloseBreaker"];

/// Every tool.
pub(crate) const VERBS: &[Verb] = &[
    looks("health", "System/Overview"),
    looks("services_list", "Services/List"),
    looks("method_describe", "Services/Describe"),
    looks("method_sample", "Services/Sample"),
    Verb { name: "call", does: ToolAction::ByHand, untrusted: true, mock: false, hint: "" },
    looks("calls_figures", "Calls/Methods"),
    tells("calls_list", "Calls/List", "Calls are there while they are recorded: calls_record."),
    tells("call_get", "Calls/Get", ""),
    looks("calls_record", "Calls/Record"),
    looks("calls_capture_bodies", "Calls/CaptureBodies"),
    looks("memos_list", "Memo/ListMemos"),
    tells("memo_entries", "Memo/ListEntries", "Names of memos: memos_list."),
    tells("memo_entry", "Memo/GetEntry", "Ids of entries: memo_entries."),
    tells("memo_explain", "Memo/Explain", "What is not observed is not known: memo_observe."),
    tells("memo_invalidators", "Memo/Invalidators", ""),
    looks("memo_observe", "Memo/Observe"),
    looks("memo_invalidate", "Memo/Invalidate"),
    looks("processes_list", "Processes/List"),
    tells("process_logs", "Processes/Logs", ""),
    Verb {
        name: "process_act",
        does: ToolAction::Action { service: "Processes", actions: ACTIONS, like: "Stop" },
        untrusted: false,
        mock: false,
        hint: "Starts, stops, restarts, freezes or thaws the processes of a hosted program, or closes \
               its circuit breaker.",
    },
    tells("bench_list", "Loads/List", ""),
    tells("bench_get", "Loads/Get", "Ids of runs: bench_list."),
    Verb {
        name: "bench_run",
        does: ToolAction::Load,
        untrusted: true,
        mock: false,
        hint: load::HINT,
    },
    tells("bench_stop", "Loads/Stop", ""),
    looks("bench_compare", "Loads/Compare"),
    looks("settings", "System/Settings"),
    mocks("rules_list", "Mocks/ListRules", ""),
    mocks("rule_read", "Mocks/GetFile", ""),
    mocks("rule_check", "Mocks/Check", ""),
    mocks("rule_write", "Mocks/PutFile", "The etag is that of rule_read."),
    mocks("rule_delete", "Mocks/DeleteFile", ""),
    mocks("protos_list", "Mocks/ListProtos", ""),
    mocks("proto_read", "Mocks/GetProto", ""),
    mocks("proto_write", "Mocks/PutProto", "The etag is that of proto_read."),
    mocks("mock_preview", "Mocks/Preview", ""),
    mocks("mock_calls", "Mocks/ListCalls", ""),
    mocks("mock_near_misses", "Mocks/NearMisses", ""),
    mocks("mock_verify", "Mocks/Verify", ""),
    mocks("mock_reset", "Mocks/Reset", ""),
    wishmock("listRules", "Mocks/ListRules", &[]),
    wishmock("readRule", "Mocks/GetFile", &[("filename", "name")]),
    overwrites("writeRule", "Mocks/GetFile", "Mocks/PutFile"),
    overwrites("uploadRule", "Mocks/GetFile", "Mocks/PutFile"),
    wishmock("listProtos", "Mocks/ListProtos", &[]),
    wishmock("readProto", "Mocks/GetProto", &[("filename", "name")]),
    overwrites("writeProto", "Mocks/GetProto", "Mocks/PutProto"),
    overwrites("uploadProto", "Mocks/GetProto", "Mocks/PutProto"),
    wishmock("getStatus", "System/Overview", &[]),
    wishmock("listServices", "Services/List", &[]),
    wishmock("describeSchema", "Services/Describe", &[("type", "name")]),
    Verb {
        name: "ruleExamples",
        does: ToolAction::Examples,
        untrusted: false,
        mock: true,
        hint: "Examples of rule files, to begin with.",
    },
];

/// What `ruleExamples` answers.
pub(crate) const EXAMPLES: &str = r#"# rules/shop.v1.cart.getprice.yaml answers shop.v1.Cart/GetPrice
responses:
  - name: bulk                       # the first response whose conditions hold answers
    when: {request.quantity: {gte: 100}}
    body: {price: 4}
  - when: {request.item.sku: {regex: "^SK-"}, metadata.x-tenant: acme}
    body: {price: 5, note: "for {{request.item.sku}}"}
    delay_ms: 20
  - when: {request.item.sku: gone}
    trailers: {grpc-status: 5, grpc-message: "no such item"}
  - body: {price: 9}                 # without conditions: all others
---
# A stream: rules/shop.v1.cart.watch.yaml
responses:
  - stream_items: [{price: 1}, {price: 2}]
    stream_delay_ms: 100
"#;
