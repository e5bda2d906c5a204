//! Predefined rules: extensions of messages of rules that say in CEL what they mean.

use std::sync::Arc;

use buffa_descriptor::reflect::DynamicMessage;

use super::super::cel::Value;
use super::super::wire_format::{Fields, message as merged};
use super::{
    Bindings, Compiler, Element, Kind, Rule, RuleSite, Scope, Subject, Type, options, program,
};

/// The smallest number of an extension in a message of rules.
const FIRST: u32 = 1000;

impl Compiler<'_> {
    pub(super) fn predefined(
        &mut self,
        subject: &Subject<'_>,
        rules: &[u8],
        member: (u32, &'static str),
        this: &Type,
        into: &mut Vec<Rule>,
    ) {
        let mut numbers = Vec::new();
        let mut fields = Fields::new(rules);
        while let Ok(Some((number, _))) = fields.next() {
            if number >= FIRST && !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        for number in numbers {
            match self.extension(subject, rules, member, this, number) {
                Ok(rules) => into.extend(rules),
                Err(why) => self.fault(subject, &[member.0, number], why),
            }
        }
    }

    fn extension(
        &self,
        subject: &Subject<'_>,
        rules: &[u8],
        member: (u32, &'static str),
        this: &Type,
        number: u32,
    ) -> Result<Vec<Rule>, String> {
        let pool = self.pool;
        let field = pool
            .message_by_name("buf.validate.FieldRules")
            .and_then(|message| message.field(member.0));
        let index = field.and_then(|field| match Type::of_field(pool, field) {
            Type::Message(index, _) => Some(index),
            _ => None,
        });
        let unknown = || format!("{}: there is no rule with the number {number}", member.1);
        let index = index.ok_or_else(unknown)?;
        let extension = pool.extension_for(index, number).ok_or_else(unknown)?;
        let whole = DynamicMessage::decode(Arc::clone(pool), index, rules)
            .map_err(|why| format!("{}: {why}", member.1))?;
        let bindings = Bindings {
            this: None,
            rule: Some(Value::of_field(&whole, extension.field())),
            rules: Some(Value::Message(Arc::new(whole))),
            ..Bindings::default()
        };
        let names = vec![
            ("this", this.clone()),
            ("rules", Type::of_message(pool, index)),
            ("rule", Type::of_any_field(pool, extension.field())),
        ];
        let scope = Scope { pool, names };
        let written = extension.field().options().map(buffa::Message::encode_to_vec);
        let written = merged(&written.unwrap_or_default(), options::PREDEFINED).unwrap_or_default();
        let compiled = options::cel_rules(&written, u32::MAX, 1).into_iter().map(|rule| {
            let mut path = subject.prefix.clone();
            path.push(Element::of_rule(member.0, member.1, Kind::Message));
            let name = format!("[{}]", extension.full_name());
            path.push(Element::of_rule(number, name, Kind::of_field(extension.field())));
            let site = RuleSite { id: rule.id, path, message: rule.message };
            program(&rule.expression, &scope, site, bindings.clone())
        });
        compiled.collect()
    }
}
