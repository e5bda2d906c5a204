//! Two sides as one HTML file: the table with its intervals drawn, and charts of both.

use std::fmt::Write as _;

use super::{escape, fill};
use crate::compare::{Ratio, Row};
use crate::result::RunResult;

const PAGE: &str = include_str!("../../assets/compare.html");

/// What the table says of one figure: name, base, new, ratio with its interval, verdict.
pub(crate) type Cells = [String; 5];

/// The runs of both sides.
pub(crate) struct Sides<'a> {
    pub(crate) base: &'a [RunResult],
    pub(crate) new: &'a [RunResult],
}

/// The whole page; `method` says how the intervals were made.
pub(crate) fn comparison(
    Sides { base, new }: &Sides<'_>,
    rows: &[(&Row, Cells)],
    notes: &[String],
    method: &str,
) -> Result<String, serde_json::Error> {
    let data = serde_json::json!({ "base": slim(base), "new": slim(new) });
    let data = serde_json::to_string(&data)?.replace("</", "<\\/");
    let mut body = String::from("<h1>tidewire bench compare</h1>\n");
    for (name, side) in [("base", base), ("new", new)] {
        sides(&mut body, name, side);
    }
    for note in notes {
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(note));
    }
    table(&mut body, rows);
    let _ = writeln!(body, "<p class=\"soft\">{}.</p>", escape(method));
    Ok(fill(PAGE, "tidewire bench compare", &body, &data))
}

/// Per-second histograms are for the intervals; charts use the figures beside them.
fn slim(runs: &[RunResult]) -> Vec<RunResult> {
    let mut runs = runs.to_vec();
    for run in &mut runs {
        run.timeline.iter_mut().for_each(|row| row.histogram.0.clear());
    }
    runs
}

fn sides(out: &mut String, name: &str, runs: &[RunResult]) {
    let Some(first) = runs.first() else { return };
    let context = &first.context;
    let commit = context.commit.as_ref().map_or_else(String::new, |c| format!(", commit {c}"));
    let count = if runs.len() == 1 { String::new() } else { format!(", {} runs", runs.len()) };
    let _ = writeln!(
        out,
        "<p><b>{name}</b>: {} · {}{commit}{count}<br><code>{}</code></p>",
        escape(&first.load.target),
        escape(&first.load.protocol),
        escape(&context.command),
    );
}

fn table(out: &mut String, rows: &[(&Row, Cells)]) {
    let widest = rows
        .iter()
        .filter_map(|(row, _)| row.ratio)
        .flat_map(|ratio| [ratio.value, ratio.low, ratio.high])
        .map(|value| (value - 1.0).abs())
        .fold(0.05_f64, f64::max);
    out.push_str(
        "<h2>Figures</h2>\n<div class=\"scroll\"><table><tr><th></th><th>base</th><th>new</th>\
         <th>new/base (95 %)</th><th></th><th></th></tr>\n",
    );
    for (row, [name, base, new, ratio, verdict]) in rows {
        let class = if row.differs() { verdict.as_str() } else { "" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}\
             </td></tr>",
            escape(name),
            escape(base),
            escape(new),
            escape(ratio),
            interval(row, widest),
            escape(verdict),
        );
    }
    out.push_str("</table></div>\n");
}

/// The interval around 1, which is in the middle.
fn interval(row: &Row, widest: f64) -> String {
    let Some(Ratio { value, low, high }) = row.ratio else { return String::new() };
    let place = |value: f64| (50.0 + (value - 1.0) / widest * 47.0).clamp(0.0, 100.0);
    let from = place(low);
    let to = place(high);
    format!(
        "<div class=\"interval\"><i class=\"one\"></i><i class=\"range\" \
         style=\"left:{from:.1}%;width:{:.1}%\"></i><i class=\"point\" style=\"left:{:.1}%\">\
         </i></div>",
        to - from,
        place(value),
    )
}
