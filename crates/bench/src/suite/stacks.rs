//! The suite `stacks`: one application as whole stacks have it, under a ramp of clients until it
//! struggles.

use std::time::Duration;

use super::{Case, Load, Suite, Work};

pub(super) const STACKS: Suite = Suite {
    name: "stacks",
    about: "one application on several stacks: health, echo, relay, contacts in PostgreSQL; 1 to 300 clients",
    reading: "A run starts with one client and ends with 300, each of which sends its next request when \
              the last is answered; echo and relay take their texts from 1,000 rows, contacts are \
              created, read and deleted beside a million others. Every answer is checked, and what fails \
              a check is an error and in no other figure. One server core; the load, PostgreSQL and the \
              store that the relay asks share the other. *Knee* is the number of clients at which 95 % of \
              the best second's rate is reached: more of them wait longer and get no more.",
    duration: Duration::from_mins(5),
    quick: Duration::from_secs(30),
    cases: &[
        ramp("Health", "health", "stacks/health.toml"),
        ramp("Echo", "echo", "stacks/echo.toml"),
        ramp("Relay", "relay", "stacks/relay.toml"),
        ramp("Contacts", "contacts", "stacks/contacts.toml"),
    ],
};

const fn ramp(name: &'static str, needs: &'static str, scenario: &'static str) -> Case {
    Case { name, needs, work: Work::Scenario(scenario), load: Load::Ramp { to: 300 } }
}
