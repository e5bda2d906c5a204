//! Query parameters as fields of the request: `?page_size=10&filter.state=OPEN&tags=a&tags=b`.
//!
//! A parameter that names no field is the caller's mistake and refused with the names that there
//! are; a server can be told to ignore it instead.

use std::borrow::Cow;

use tidewire_service::{Error, Result};

use crate::field::{ResolveError, resolve};
use crate::options::UnknownNames;
use crate::plan::{Assign, BodyRule, Origin, RequestPlan};

/// Appends the values of a query.
///
/// # Errors
/// A parameter that names no field, or one that path or body fill; text that does not decode; more
/// parameters than `max`.
pub(crate) fn parse<'a>(
    plan: &RequestPlan,
    query: &'a str,
    unknown: UnknownNames,
    max: usize,
    assigns: &mut Vec<Assign<'a>>,
) -> Result<()> {
    let bound_by_path = assigns.len();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        if index >= max {
            return Err(Error::invalid_argument(format!(
                "the query has more than rest.query_parameters_max = {max} parameters"
            )));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name).map_err(|why| invalid_parameter(name, why))?;
        let field = match resolve(plan.schema.pool(), plan.index, &name) {
            Ok(_) if plan.body == BodyRule::Whole => {
                return Err(invalid_parameter(&name, "the body fills every field; put it there"));
            }
            Ok(field) => field,
            Err(ResolveError::Unknown(_)) if unknown == UnknownNames::Ignored => continue,
            Err(ResolveError::Unknown(why) | ResolveError::Unfit(why)) => {
                return Err(invalid_parameter(&name, &why));
            }
        };
        let of_path = &assigns[..bound_by_path];
        if of_path.iter().any(|assign| assign.field.steps() == field.steps()) {
            return Err(invalid_parameter(
                &name,
                "the path fills this field; remove the parameter",
            ));
        }
        if let BodyRule::Field { number, .. } = &plan.body
            && field.steps()[0] == *number
        {
            return Err(invalid_parameter(&name, "the body fills this field; put it there"));
        }
        let value = decoded(value).map_err(|why| invalid_parameter(&name, why))?;
        assigns.push(Assign { field, value, origin: Origin::Query, name });
    }
    Ok(())
}

fn invalid_parameter(name: &str, why: &str) -> Error {
    Error::invalid_argument(format!("query parameter {name}: {why}"))
}

/// Percent-decodes a name or a value; a plus is a space.
fn decoded(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    if !raw.contains('+') {
        return tidewire_proto::http::decode(raw, true);
    }
    let spaced = raw.replace('+', " ");
    tidewire_proto::http::decode(&spaced, true).map(|text| Cow::Owned(text.into_owned()))
}
