//! What an expression is made of.

use super::value::Value;

/// An expression.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    Literal(Value),
    /// A name: a variable, or a type such as `int`.
    Name(String),
    /// `of.field`, or `has(of.field)`.
    Select {
        of: Box<Self>,
        field: String,
        test: bool,
    },
    /// A function, called plainly or on a target.
    Call {
        name: String,
        target: Option<Box<Self>>,
        arguments: Vec<Self>,
    },
    /// An operator: `_+_`, `!_`, `_[_]`.
    Operator {
        name: Operator,
        operands: Vec<Self>,
    },
    /// `condition ? yes : no`.
    Choice {
        condition: Box<Self>,
        yes: Box<Self>,
        no: Box<Self>,
    },
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// `of.all(name, body)` and its like.
    Each {
        kind: MacroKind,
        of: Box<Self>,
        name: String,
        condition: Option<Box<Self>>,
        body: Box<Self>,
    },
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Not,
    Negate,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Index,
}

/// What is asked of the items of a list or the keys of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl Expr {
    /// Whether a name stands anywhere in it, be it a variable's or that of an item.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let any = |all: &[Self]| all.iter().any(|one| one.mentions(name));
        match self {
            Self::Literal(_) => false,
            Self::Name(one) => one == name,
            Self::Select { of, .. } => of.mentions(name),
            Self::Call { target, arguments, .. } => {
                target.as_ref().is_some_and(|target| target.mentions(name)) || any(arguments)
            }
            Self::Operator { operands, .. } => any(operands),
            Self::Choice { condition, yes, no } => {
                [condition, yes, no].iter().any(|one| one.mentions(name))
            }
            Self::List(items) => any(items),
            Self::Map(entries) => {
                entries.iter().any(|(key, value)| key.mentions(name) || value.mentions(name))
            }
            Self::Each { of, condition, body, .. } => {
                of.mentions(name)
                    || body.mentions(name)
                    || condition.as_ref().is_some_and(|one| one.mentions(name))
            }
        }
    }
}

impl Operator {
    /// How it is written.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Not => "!",
            Self::Negate | Self::Subtract => "-",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Index => "[]",
        }
    }
}
