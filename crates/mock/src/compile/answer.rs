//! What a response answers: message, items, error, headers, trailers, delays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use tidewire_service::{Code, Codec, Detail};

use super::Compiler;
use crate::body::{self, meant};
use crate::compile::duration;
use crate::rule::{
    Answer, Content, Delay, EncodedMessage, Failure, Item, Items, Line, Reaction, Response, Text,
};
use crate::template::Template;
use crate::template::value_template::ValueTemplate;
use crate::value::node::{Node, Tree};
use crate::value::view::View;

/// Between two messages of a stream, unless a rule says otherwise.
const STREAM_DELAY_MS: u64 = 100;

const ITEM_KEYS: [&str; 6] = ["body", "body_base64", "delay", "repeat", "error", "fake"];

impl Compiler<'_> {
    /// The answer that a response, or a step of its sequence, says.
    pub(crate) fn answer(&mut self, node: &Node) -> Answer {
        let streams = self.method.kind.server_streams();
        if let Some((late, rest)) = self.late(node) {
            return Answer { late: Some(late), ..self.answer(&rest) };
        }
        let mut answer = Answer {
            delay: self.delay(node),
            headers: self.lines(node.get("headers"), true),
            trailers: self.lines(node.get("trailers"), false),
            failure: self.failure(node),
            body: self.body(node),
            faults: self.faults(node),
            is_upstream: node.get("upstream").is_some_and(Node::is_truthy),
            ..Answer::default()
        };
        if streams {
            answer.items = self.items(node);
        } else {
            for key in ["stream_items", "stream", "on_message"] {
                if let Some(node) = node.get(key).filter(|node| node.value != Tree::Null) {
                    let why = format!(
                        "{key} is passed over: {} answers with one message",
                        self.method.path
                    );
                    self.warn(node.place, why);
                }
            }
        }
        if let Some(reactions) = node.get("on_message").filter(|_| streams) {
            if !self.method.kind.client_streams() {
                let why = format!(
                    "on_message is for bidirectional methods; {} takes one message",
                    self.method.path
                );
                self.error(reactions.place, why);
            }
            for reaction in reactions.items() {
                let reaction = self.reaction(reaction);
                answer.reactions.push(reaction);
            }
        }
        answer
    }

    /// What an answer waits for first.
    pub(crate) fn delay(&mut self, node: &Node) -> Option<Delay> {
        if let Some(delay) = node.get("delay") {
            return self.any_delay(delay);
        }
        let millis = node.get("delay_ms").filter(|node| node.value != Tree::Null)?;
        match duration::millis(millis) {
            Some(delay) => Some(Delay::Fixed(delay)),
            None => {
                self.error(millis.place, "delay_ms is a number of milliseconds");
                None
            }
        }
    }

    fn any_delay(&mut self, node: &Node) -> Option<Delay> {
        match duration::delay(node) {
            Ok(delay) => Some(delay),
            Err(why) => {
                self.error(node.place, why);
                None
            }
        }
    }

    /// Headers or trailers; those of gRPC itself are not trailers.
    fn lines(&mut self, node: Option<&Node>, with_templates: bool) -> Vec<(HeaderName, Line)> {
        let mut lines = Vec::new();
        let named = node.map_or_else(Vec::new, |node| self.named_lines(node));
        for member in node.map_or(&[][..], Node::members).iter().chain(&named) {
            let lower = member.key.to_ascii_lowercase();
            if lower == "grpc-status" || lower == "grpc-message" {
                if lower != member.key && !with_templates {
                    let why = format!("{} is passed over; write it in lower case", member.key);
                    self.warn(member.place, why);
                }
                continue;
            }
            let Ok(name) = HeaderName::try_from(&lower) else {
                self.error(member.place, format!("{} is not a name of a header", member.key));
                continue;
            };
            if is_reserved(&lower) {
                self.error(member.place, format!("{lower} belongs to the protocol; leave it out"));
                continue;
            }
            let values = match &member.value.value {
                Tree::List(items) if with_templates || self.is_rendered => items.iter().collect(),
                _ => vec![&member.value],
            };
            for value in values {
                if matches!(value.value, Tree::Object(_) | Tree::List(_)) {
                    let why = format!("{lower} is {}; a header is text", value.kind());
                    self.error(value.place, why);
                    continue;
                }
                let text = View::Rule(value).text();
                let template = match with_templates {
                    true => self.template(&text, value.place),
                    false => None,
                };
                let line = match template {
                    Some(template) => Line::Template(template),
                    None => match HeaderValue::from_bytes(text.as_bytes()) {
                        Ok(value) => Line::Fixed(value),
                        Err(_) => {
                            self.error(
                                value.place,
                                format!("what {lower} says cannot be sent in a header"),
                            );
                            continue;
                        }
                    },
                };
                lines.push((name.clone(), line));
            }
        }
        lines
    }

    /// The error that `error` says, or `grpc-status` among the trailers.
    fn failure(&mut self, node: &Node) -> Option<Failure> {
        if let Some(error) = node.get("error").filter(|node| node.value != Tree::Null) {
            return self.error_of(error);
        }
        let trailers = node.get("trailers")?;
        let status = View::Rule(trailers.get("grpc-status")?).number()?.as_f64();
        if status == 0.0 || !status.is_finite() {
            return None;
        }
        let code = (1..=16_u32).find(|code| f64::from(*code) == status);
        let code = code.and_then(Code::from_number).unwrap_or(Code::Unknown);
        let message = trailers.get("grpc-message").filter(|node| node.value != Tree::Null);
        let message = message.map_or_else(|| "mock error".into(), |node| View::Rule(node).text());
        Some(Failure { code, message: Text::Fixed(message.into_owned()), details: Vec::new() })
    }

    fn error_of(&mut self, node: &Node) -> Option<Failure> {
        let text = |node: &Node| View::Rule(node).text().into_owned();
        if !node.is_object() {
            let why = "error is an object; write error: {code: NOT_FOUND, message: no such item}";
            self.error(node.place, why);
            return None;
        }
        self.unknown_keys(node, &["code", "message", "details"], "error");
        let code = match node.get("code").filter(|code| code.value != Tree::Null) {
            Some(code) => match code_of(&text(code)) {
                Some(found) => found,
                None => {
                    let known: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
                    let meant = meant(&text(code), &known);
                    self.error(
                        code.place,
                        format!("{} is not a code of an error{meant}", text(code)),
                    );
                    Code::Unknown
                }
            },
            None => Code::Unknown,
        };
        let message = node.get("message").filter(|message| message.value != Tree::Null);
        let message = message.map(text).unwrap_or_default();
        let message = match self.template(&message, node.place) {
            Some(template) => Text::Template(template),
            None => Text::Fixed(message),
        };
        let details = node.get("details").map_or(&[][..], Node::items);
        let details = details.iter().filter_map(|detail| self.detail(detail)).collect();
        Some(Failure { code, message, details })
    }

    /// A message of the type that its `@type` names.
    fn detail(&mut self, node: &Node) -> Option<Detail> {
        let Some(name) = node.get("@type").and_then(Node::as_text) else {
            self.error(node.place, "a detail names its type: {\"@type\": google.rpc.ErrorInfo, …}");
            return None;
        };
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        if let Some(bytes) = node.get("@base64").and_then(Node::as_text) {
            return match STANDARD.decode(bytes) {
                Ok(value) => Some(Detail { type_name: name, value: value.into() }),
                Err(_) => {
                    self.error(node.place, "@base64 is not base64");
                    None
                }
            };
        }
        let members = node.members().iter().filter(|one| one.key != "@type").cloned().collect();
        let rest = Node { value: Tree::Object(members), place: node.place };
        let known = crate::compile::details::error_details();
        let schema = match self.schema.message_type(&name) {
            Some(_) => self.schema,
            None => known,
        };
        let mut dropped = Vec::new();
        let message = body::message(schema, &name, &rest, &mut |fault| dropped.push(fault));
        for fault in dropped {
            self.warn(fault.place, fault.message);
        }
        let bytes = message.map_err(|fault| (fault.place, fault.message)).and_then(|message| {
            let bytes = message.encode(Codec::Proto);
            bytes.map_err(|error| (node.place, error.message().to_owned()))
        });
        match bytes {
            Ok(value) => Some(Detail { type_name: name, value }),
            Err((place, why)) => {
                self.error(place, why);
                None
            }
        }
    }

    fn body(&mut self, node: &Node) -> Option<Content> {
        if let Some(bytes) = node.get("body_base64").filter(|one| one.value != Tree::Null) {
            return Some(self.encoded(bytes));
        }
        let body = node.get("body").filter(|body| body.value != Tree::Null);
        match node.get("fake").filter(|fake| fake.is_truthy()) {
            Some(fake) => Some(self.generated(fake, body)),
            None => body.map(|body| self.content(body)),
        }
    }

    /// A message by its bytes in protobuf.
    fn encoded(&mut self, node: &Node) -> Content {
        let text = View::Rule(node).text();
        let bytes = STANDARD.decode(&*text).map_err(|_| "this is not base64".to_owned());
        let read = bytes.and_then(|bytes| {
            let read = self.schema.decode(&self.method.output, Codec::Proto, &bytes);
            read.map(|message| (message, bytes)).map_err(|error| error.message().to_owned())
        });
        match read {
            Ok((message, bytes)) => Content::Fixed(EncodedMessage::of_bytes(message, bytes.into())),
            Err(message) => {
                self.error(node.place, format!("body_base64: {message}"));
                let place = node.place;
                let path = "body_base64".to_owned();
                Content::Broken(body::BodyFault::new(place, path, message))
            }
        }
    }

    /// A message made from the schema, with a body over it.
    fn generated(&mut self, fake: &Node, body: Option<&Node>) -> Content {
        self.unknown_keys(fake, &["seed", "violate"], "fake");
        let number = |key: &str| {
            fake.get(key).and_then(|node| View::Rule(node).number()).map(|number| number.as_f64())
        };
        let violate = number("violate").unwrap_or(0.0);
        if !(0.0..=1.0).contains(&violate) {
            self.error(fake.place, "violate is a probability: 0 to 1");
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "any number is a seed"
        )]
        let seed = number("seed").map(|seed| seed.abs() as u64);
        let over = body.map(|body| {
            // Whether the schema can hold it is found out now, as far as it is known.
            let _ = self.content(body);
            Box::new(self.value_template(body))
        });
        Content::Generated { over, violate: violate.clamp(0.0, 1.0), seed }
    }

    /// A message that a rule writes down.
    pub(super) fn content(&mut self, node: &Node) -> Content {
        let value_template = self.value_template(node);
        let mut dropped = Vec::new();
        let schema = self.schema;
        let output = self.method.output.clone();
        if let Some(owner) = schema.message_type(&output) {
            self.check_fields(owner, &value_template);
        }
        let Some(plain) = value_template.plain_part() else {
            return Content::Template(value_template);
        };
        let made = body::message(schema, &output, &plain, &mut |fault| dropped.push(fault));
        for fault in dropped {
            match fault.is_wrong_name {
                // Told as an error, and left out: wishmock's rules are answered so.
                true => self.error(fault.place, format!("{}: {}", fault.path, fault.message)),
                false => self.warn(fault.place, fault.message),
            }
        }
        match made {
            Ok(_) if !matches!(value_template, ValueTemplate::Plain(_)) => {
                Content::Template(value_template)
            }
            Ok(message) => Content::Fixed(EncodedMessage::new(message)),
            Err(fault) => {
                let at =
                    if fault.path.is_empty() { String::new() } else { format!("{}: ", fault.path) };
                self.error(fault.place, format!("{at}{}", fault.message));
                Content::Broken(fault)
            }
        }
    }

    /// The messages of a stream: `stream_items`, or `stream` with more to say about each.
    fn items(&mut self, node: &Node) -> Option<Items> {
        let millis = node.get("stream_delay_ms").filter(|node| node.value != Tree::Null);
        let millis = millis.and_then(duration::millis);
        let pause = millis.unwrap_or(std::time::Duration::from_millis(STREAM_DELAY_MS));
        let is_true = |key: &str| node.get(key).is_some_and(Node::is_truthy);
        let mut items = Items {
            list: Vec::new(),
            rounds: if is_true("stream_loop") { None } else { Some(1) },
            is_shuffled: is_true("stream_random_order"),
            pause: Delay::Fixed(pause),
            failure: None,
            failure_delay: None,
        };
        if let Some(stream) = node.get("stream").filter(|one| one.value != Tree::Null) {
            if millis.is_none() {
                items.pause = Delay::Fixed(std::time::Duration::ZERO);
            }
            self.rich_items(stream, &mut items);
            return Some(items);
        }
        match node.get("stream_items").filter(|one| one.is_truthy()) {
            Some(list) if matches!(list.value, Tree::List(_)) => {
                for item in list.items() {
                    let content = self.content(item);
                    items.list.push(Item { content, delay: None });
                }
            }
            Some(other) => {
                let why = format!("stream_items is {}; write a list", other.kind());
                self.error(other.place, why.clone());
                let fault = body::BodyFault::new(other.place, String::new(), why);
                items.list.push(Item { content: Content::Broken(fault), delay: None });
            }
            // One message, in the same way.
            None => {
                let content = self.body(node)?;
                items.list.push(Item { content, delay: None });
            }
        }
        Some(items)
    }

    /// `stream: [{body, delay}, {repeat: 3}, {error}]`.
    fn rich_items(&mut self, stream: &Node, items: &mut Items) {
        for item in stream.items() {
            self.unknown_keys(item, &ITEM_KEYS, "an item of stream");
            if let Some(repeat) = item.get("repeat") {
                items.rounds = match View::Rule(repeat).number() {
                    _ if repeat.value == Tree::Bool(true) => None,
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "rounded"
                    )]
                    Some(number) if number.as_f64() >= 1.0 => Some(number.as_f64() as u64),
                    _ => {
                        self.error(repeat.place, "repeat is a number of rounds, or true for ever");
                        Some(1)
                    }
                };
                continue;
            }
            let delay = item.get("delay").and_then(|delay| self.any_delay(delay));
            if let Some(error) = item.get("error") {
                items.failure = self.error_of(error);
                items.failure_delay = delay;
                continue;
            }
            let Some(content) = self.body(item) else {
                self.error(item.place, "an item of stream has a body, an error or repeat");
                continue;
            };
            items.list.push(Item { content, delay });
        }
    }

    /// What is done when a message comes.
    pub(crate) fn reaction(&mut self, node: &Node) -> Reaction {
        self.unknown_keys(node, &["when", "send", "error", "end"], "a reaction");
        if let Some((late, rest)) = self.late(node) {
            return Reaction { late: Some(late), ..self.reaction(&rest) };
        }
        let when = node.get("when").map_or_else(Vec::new, |when| self.conditions(when));
        let mut send = Vec::new();
        for item in node.get("send").map_or(&[][..], Node::items) {
            // A message, or one with a delay.
            let is_rich = item.get("body").is_some() || item.get("delay").is_some();
            let delay =
                item.get("delay").filter(|_| is_rich).and_then(|delay| self.any_delay(delay));
            let content = match is_rich {
                true => self.body(item),
                false => Some(self.content(item)),
            };
            send.extend(content.map(|content| Item { content, delay }));
        }
        let error = node.get("error").filter(|error| error.value != Tree::Null);
        let failure = error.and_then(|error| self.error_of(error));
        let ends = node.get("end").is_some_and(Node::is_truthy);
        Reaction { when, send, failure, ends, late: None }
    }
}

/// A code by its name in either spelling, or by its number.
fn code_of(text: &str) -> Option<Code> {
    let lower = text.to_ascii_lowercase();
    let lower = if lower == "cancelled" { "canceled".to_owned() } else { lower };
    let named = Code::ALL.into_iter().find(|code| code.as_str() == lower);
    named.or_else(|| text.parse().ok().and_then(Code::from_number))
}

/// Names that a protocol uses itself.
fn is_reserved(name: &str) -> bool {
    name.starts_with("grpc-")
        || name.starts_with("connect-")
        || matches!(
            name,
            "content-type"
                | "content-length"
                | "content-encoding"
                | "transfer-encoding"
                | "connection"
                | "te"
                | "trailer"
        )
}

/// The templates of a response.
pub(super) fn templates<'r>(response: &'r Response, each: &mut dyn FnMut(&'r Template)) {
    let content = |content: &'r Content, each: &mut dyn FnMut(&'r Template)| match content {
        Content::Template(value_template) => {
            value_template.templates(&mut |template, _| each(template))
        }
        Content::Generated { over: Some(value_template), .. } => {
            value_template.templates(&mut |template, _| each(template));
        }
        _ => {}
    };
    for answer in &response.answers {
        answer.body.iter().for_each(|one| content(one, each));
        let reactions = || answer.reactions.iter();
        let sent = reactions().flat_map(|reaction| &reaction.send);
        let items = answer.items.iter().flat_map(|items| &items.list).chain(sent);
        items.for_each(|item| content(&item.content, each));
        for (_, line) in answer.headers.iter().chain(&answer.trailers) {
            if let Line::Template(template) = line {
                each(template);
            }
        }
        let ends = answer.items.iter().filter_map(|items| items.failure.as_ref());
        let reacts = reactions().filter_map(|reaction| reaction.failure.as_ref());
        for failure in answer.failure.iter().chain(ends).chain(reacts) {
            if let Text::Template(template) = &failure.message {
                each(template);
            }
        }
        let late = reactions().filter_map(|reaction| reaction.late.as_ref());
        answer
            .late
            .iter()
            .chain(late)
            .for_each(|late| late.templates(&mut |template, _| each(template)));
    }
}
