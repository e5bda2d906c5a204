//! Which database: a SQLite file, or PostgreSQL by URL or by the variables of the web-server
//! comparison that the application takes part in.

use std::path::PathBuf;

use anyhow::{Result, bail};

#[cfg(feature = "postgres")]
use crate::store::postgres;

/// Where contacts are kept.
#[derive(Debug, Clone)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Config>),
}

impl Database {
    /// The database that is asked for: `url` if there is one, else what `variable` says of a
    /// PostgreSQL database, else the file.
    ///
    /// Of `Contacts_DatabaseHost`, `Contacts_DatabaseName`, `Contacts_DatabaseUsername` and
    /// `Contacts_DatabasePassword` one is enough; the others are as the comparison has them.
    ///
    /// # Errors
    /// A URL that is not one of PostgreSQL; PostgreSQL where the program was built without it.
    pub fn chosen(
        url: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
        file: PathBuf,
    ) -> Result<Self> {
        if let Some(url) = url {
            return of_url(url);
        }
        let of_comparison = COMPARISON.map(|(name, default)| (variable(name), default));
        if of_comparison.iter().all(|(value, _)| value.is_none()) {
            return Ok(Self::Sqlite(file));
        }
        of_parts(of_comparison.map(|(value, default)| value.unwrap_or_else(|| default.to_owned())))
    }
}

fn of_url(url: &str) -> Result<Database> {
    // A URL may hold a password, so it is not repeated.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        bail!(
            "DATABASE_URL does not begin with postgres://; write postgres://user@host/name, or \
             name a SQLite file with --database"
        );
    }
    parsed(url)
}

#[cfg(feature = "postgres")]
fn parsed(url: &str) -> Result<Database> {
    use anyhow::Context as _;
    let config = url.parse().context("DATABASE_URL; write postgres://user:password@host:5432/name");
    Ok(Database::Postgres(Box::new(config?)))
}

#[cfg(feature = "postgres")]
fn of_parts([host, name, user, password]: [String; 4]) -> Result<Database> {
    let mut config = postgres::Config::new();
    match host.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => config.host(host).port(port),
        None => config.host(host),
    };
    config.dbname(name).user(user).password(password);
    Ok(Database::Postgres(Box::new(config)))
}

#[cfg(not(feature = "postgres"))]
fn parsed(_: &str) -> Result<Database> {
    bail!("this program was built without PostgreSQL; build it with --features postgres")
}

#[cfg(not(feature = "postgres"))]
fn of_parts(_: [String; 4]) -> Result<Database> {
    parsed("")
}

/// The variables, and what the comparison has where they are not set.
const COMPARISON: [(&str, &str); 4] = [
    ("Contacts_DatabaseHost", "localhost"),
    ("Contacts_DatabaseName", "web_server_tech_benchmarks"),
    ("Contacts_DatabaseUsername", "postgres"),
    ("Contacts_DatabasePassword", "password"),
];

#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests {
    use super::*;

    fn chosen(url: Option<&str>, variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        match Database::chosen(url, variable, PathBuf::from("a.sqlite")) {
            Ok(Database::Sqlite(file)) => file.display().to_string(),
            Ok(Database::Postgres(config)) => format!(
                "{:?} {:?} {:?} {:?} {:?}",
                config.get_hosts(),
                config.get_ports(),
                config.get_dbname().unwrap(),
                config.get_user().unwrap(),
                config.get_password().map(String::from_utf8_lossy),
            ),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_url_comes_before_the_variables_and_those_before_the_file() {
        assert_eq!(chosen(None, &[]), "a.sqlite");
        let host = [("Contacts_DatabaseHost", "db"), ("Contacts_DatabasePassword", "x")];
        assert_eq!(
            chosen(None, &host),
            r#"[Tcp("db")] [] "web_server_tech_benchmarks" "postgres" Some("x")"#
        );
        let port = [("Contacts_DatabaseHost", "db:5433"), ("Contacts_DatabaseName", "n")];
        assert_eq!(chosen(None, &port), r#"[Tcp("db")] [5433] "n" "postgres" Some("password")"#);
        assert_eq!(
            chosen(Some("postgres://u:p@h:1/n"), &host),
            r#"[Tcp("h")] [1] "n" "u" Some("p")"#
        );
    }

    #[test]
    fn a_url_that_is_none_is_refused_without_its_password() {
        for url in ["mysql://u:secret@h/n", "u:secret@h", "postgres://u:secret@h:port/n"] {
            let said = chosen(Some(url), &[]);
            assert!(said.starts_with("DATABASE_URL") && !said.contains("secret"), "{said}");
        }
    }
}
