//! A suite as one HTML file: its tables, and of ramps the charts with all peers overlaid.

use std::fmt::Write as _;

use super::{escape, fill, opened};
use crate::suite::{self, Cell, Section, Suite, SuiteResult};

const PAGE: &str = include_str!("../../assets/suite.html");

/// The whole page.
pub(crate) fn suite(suite: &Suite, result: &SuiteResult) -> Result<String, serde_json::Error> {
    let data = serde_json::to_string(&suite::series(suite, result))?.replace("</", "<\\/");
    let title = format!("{} – tidewire bench suite", suite.name);
    let mut body = format!("<h1>Suite {}</h1>\n", suite.name);
    for paragraph in suite.reading.split("\n\n") {
        let _ = writeln!(body, "<p>{}</p>", marked(paragraph));
    }
    let _ = writeln!(body, "<p class=\"soft\">{}</p>", marked(&suite::origin(result)));
    for note in suite::notes(result) {
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&note));
    }
    for section in suite::sections(suite, result) {
        table(&mut body, &section);
    }
    Ok(fill(PAGE, &title, &body, &data))
}

/// Text with the few marks of Markdown that a suite's texts have.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in escape(text).split(['`', '*']).enumerate() {
        match at % 2 {
            0 => out.push_str(part),
            _ => drop(write!(out, "<b>{part}</b>")),
        }
    }
    out
}

fn table(out: &mut String, section: &Section) {
    let _ = write!(out, "<h2>{}</h2>\n<div class=\"scroll\"><table><tr>", escape(section.case));
    for head in &section.heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr>\n");
    for row in &section.rows {
        out.push_str("<tr>");
        for Cell { text, spread, best } in row {
            let open = opened(text);
            let text = escape(text);
            let text = if *best { format!("<b>{text}</b>") } else { text };
            let spread = spread.as_ref().map_or_else(String::new, |spread| {
                format!("<br><span class=\"soft\">{}</span>", escape(spread))
            });
            let _ = write!(out, "{open}{text}{spread}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    if section.heads.contains(&"knee") {
        let _ =
            writeln!(out, "<div class=\"charts\" data-case=\"{}\"></div>", escape(section.case));
    }
}
