//! Words to an expression, by precedence.
//!
//! Depth is bounded, of brackets and of long chains alike, since checking and evaluating walk the
//! expression recursively.

use super::ast::{Expr, MacroKind, Operator};
use super::text::{Token, words};
use super::value::Value;

/// The most bytes that an expression may have.
const BYTES_MAX: usize = 16 << 10;
/// The most expressions within one another.
const DEPTH_MAX: usize = 100;

/// Parses an expression.
///
/// # Errors
/// What is wrong, and at which character.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("has more than {BYTES_MAX} bytes"));
    }
    let mut parser = Parser { words: words(text)?, at: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

struct Parser {
    words: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

/// Binary operators by how tightly they bind.
const LEVELS: [&[Operator]; 5] = [
    &[Operator::Or],
    &[Operator::And],
    &[
        Operator::LessOrEqual,
        Operator::GreaterOrEqual,
        Operator::Less,
        Operator::Greater,
        Operator::Equal,
        Operator::Unequal,
        Operator::In,
    ],
    &[Operator::Add, Operator::Subtract],
    &[Operator::Multiply, Operator::Divide, Operator::Remainder],
];

impl Parser {
    fn expression(&mut self) -> Result<Expr, String> {
        self.deeper(|parser| {
            let condition = parser.binary(0)?;
            if !parser.take("?") {
                return Ok(condition);
            }
            let yes = parser.binary(0)?;
            parser.expect(":")?;
            let no = parser.expression()?;
            let condition = Box::new(condition);
            let yes = Box::new(yes);
            let no = Box::new(no);
            Ok(Expr::Choice { condition, yes, no })
        })
    }

    fn deeper(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("has more than {DEPTH_MAX} expressions within one another"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let before = self.depth;
        while let Some(name) = self.operator(operators) {
            // A chain leans to the left, as deep as it is long.
            self.grow()?;
            let right = self.binary(level + 1)?;
            left = Expr::Operator { name, operands: vec![left, right] };
        }
        self.depth = before;
        Ok(left)
    }

    fn grow(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("has more than {DEPTH_MAX} operators in a chain"));
        }
        Ok(())
    }

    fn operator(&mut self, among: &[Operator]) -> Option<Operator> {
        let found = among.iter().copied().find(|operator| match self.peek() {
            Token::Sign(sign) => *sign == operator.sign(),
            Token::Name(name) => *operator == Operator::In && name == "in",
            _ => false,
        })?;
        self.at += 1;
        Some(found)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        let name = match self.peek() {
            Token::Sign("!") => Operator::Not,
            Token::Sign("-") => Operator::Negate,
            _ => return self.member(),
        };
        self.at += 1;
        if name == Operator::Negate {
            match self.peek().clone() {
                Token::Literal(Value::Int(number)) => {
                    self.words[self.at].0 = Token::Literal(Value::Int(number.wrapping_neg()));
                    return self.member();
                }
                Token::Literal(Value::Double(number)) => {
                    self.words[self.at].0 = Token::Literal(Value::Double(-number));
                    return self.member();
                }
                _ => {}
            }
        }
        self.deeper(|parser| Ok(Expr::Operator { name, operands: vec![parser.unary()?] }))
    }

    fn member(&mut self) -> Result<Expr, String> {
        let mut expr = self.primary()?;
        let before = self.depth;
        loop {
            if self.take(".") {
                self.grow()?;
                let Token::Name(name) = self.next() else { return Err(self.unexpected_before()) };
                expr = if self.take("(") {
                    let arguments = self.list(")")?;
                    each(expr, name, arguments)?
                } else {
                    Expr::Select { of: Box::new(expr), field: name, test: false }
                };
            } else if self.take("[") {
                self.grow()?;
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr::Operator { name: Operator::Index, operands: vec![expr, index] };
            } else {
                self.depth = before;
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, String> {
        match self.next() {
            Token::Literal(value) => Ok(Expr::Literal(value)),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => Ok(Expr::List(self.list("]")?)),
            Token::Sign("{") => self.map(),
            Token::Sign(".") => self.primary(),
            Token::Name(name) if self.take("(") => {
                let mut arguments = self.list(")")?;
                if name != "has" {
                    return Ok(Expr::Call { name, target: None, arguments });
                }
                match (arguments.pop(), arguments.is_empty()) {
                    (Some(Expr::Select { of, field, .. }), true) => {
                        Ok(Expr::Select { of, field, test: true })
                    }
                    _ => Err("has() takes a field, such as has(this.name)".to_owned()),
                }
            }
            Token::Name(name) => Ok(Expr::Name(name)),
            _ => Err(self.unexpected_before()),
        }
    }

    fn list(&mut self, end: &'static str) -> Result<Vec<Expr>, String> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Expr, String> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expr::Map(entries))
    }

    fn peek(&self) -> &Token {
        &self.words[self.at].0
    }

    fn next(&mut self) -> Token {
        let word = self.words[self.at].0.clone();
        self.at = (self.at + 1).min(self.words.len() - 1);
        word
    }

    fn take(&mut self, sign: &'static str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.take(sign) {
            return Ok(());
        }
        Err(format!("at {}: {sign:?} is missing", self.words[self.at].1 + 1))
    }

    fn unexpected(&self) -> String {
        let (word, at) = &self.words[self.at];
        match word {
            Token::End => "ends too early".to_owned(),
            Token::Sign(sign) => format!("at {}: unexpected {sign:?}", at + 1),
            Token::Name(name) => format!("at {}: unexpected {name}", at + 1),
            Token::Literal(_) => format!("at {}: unexpected value", at + 1),
        }
    }

    fn unexpected_before(&mut self) -> String {
        if !matches!(self.peek(), Token::End) || self.at + 1 < self.words.len() {
            self.at -= 1;
        }
        self.unexpected()
    }
}

/// A call on a target; those that go through items have a name for them as their first argument.
fn each(of: Expr, name: String, mut arguments: Vec<Expr>) -> Result<Expr, String> {
    let kind = match (name.as_str(), arguments.len()) {
        ("all", 2) => MacroKind::All,
        ("exists", 2) => MacroKind::Exists,
        ("exists_one" | "existsOne", 2) => MacroKind::ExistsOne,
        ("filter", 2) => MacroKind::Filter,
        ("map", 2 | 3) => MacroKind::Map,
        _ => return Ok(Expr::Call { name, target: Some(Box::new(of)), arguments }),
    };
    let body = Box::new(arguments.pop().ok_or("an argument is missing")?);
    let condition = (arguments.len() == 2).then(|| arguments.pop()).flatten().map(Box::new);
    match arguments.pop() {
        Some(Expr::Name(item)) => {
            Ok(Expr::Each { kind, of: Box::new(of), name: item, condition, body })
        }
        _ => Err(format!("{name}() takes a name for the items first")),
    }
}
