//! What a run of the suite `hosting` comes to, in three tables: each way to an answer at a glance,
//! what it costs that a program has a web server, and how latency is spread, with how many requests
//! were made and failed. They are of Tidewire's own rows.

use std::fmt::Write as _;

use super::SuiteResult;
use super::hosting::LANGUAGES;
use super::published_tables::{Rounds, cell};
use super::runner::Latency;
use crate::quantity::{digits, time};

/// The ways to an answer, as cases are called.
const WAYS: [&str; 5] = ["Kept answer", "HTTP warm", "HTTP cold", "Pipe warm", "Pipe cold"];

/// The tables, as Markdown.
pub(super) fn tables(result: &SuiteResult) -> String {
    let mut out =
        String::from("\n# At a glance\n\nAverage time of an answer, and answers a second.\n\n| |");
    for way in WAYS {
        let _ = write!(out, " {way} |");
    }
    let _ = writeln!(out, "\n|---|{}", "--:|".repeat(WAYS.len()));
    for language in LANGUAGES {
        let _ = write!(out, "| {language} |");
        for way in WAYS {
            let of = Answers::of(result, way, language);
            let both = of.mean().zip(of.rate());
            cell(both.map(|(mean, rate)| format!("{}, {}/s", time(mean), digits(rate))), &mut out);
        }
        out.push('\n');
    }
    web_server_tax(result, &mut out);
    percentiles(result, &mut out);
    out
}

/// What HTTP costs beside the pipe. Below 1 HTTP takes less.
fn web_server_tax(result: &SuiteResult, out: &mut String) {
    out.push_str(
        "\n# Web server tax\n\nThe same program with a web server, and on the pipe. Ratios are HTTP's over the pipe's, \
         of rates the pipe's over HTTP's: above 1 the pipe is the better one.\n\n\
         | | warm answer, average | ratio | first answer of a cold one | ratio | warm answers a second | ratio |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for language in LANGUAGES {
        let [http, pipe] = ["HTTP warm", "Pipe warm"].map(|way| Answers::of(result, way, language));
        let [http_cold, pipe_cold] =
            ["HTTP cold", "Pipe cold"].map(|way| Answers::of(result, way, language));
        let _ = write!(out, "| {language} |");
        pair([http.mean(), pipe.mean()], time, |http, pipe| http / pipe, out);
        pair([http_cold.first(), pipe_cold.first()], time, |http, pipe| http / pipe, out);
        pair([http.rate(), pipe.rate()], digits, |http, pipe| pipe / http, out);
        out.push('\n');
    }
}

/// A figure over HTTP and over the pipe, and their ratio.
fn pair(
    [http, pipe]: [Option<f64>; 2],
    show: fn(f64) -> String,
    ratio: fn(f64, f64) -> f64,
    out: &mut String,
) {
    let both = http.zip(pipe);
    cell(both.map(|(http, pipe)| format!("HTTP {}, pipe {}", show(http), show(pipe))), out);
    cell(both.map(|(http, pipe)| format!("{:.2}", ratio(http, pipe))), out);
}

fn percentiles(result: &SuiteResult, out: &mut String) {
    out.push_str(
        "\n# Percentiles\n\n*total* and *failed* are requests of all rounds.\n\n\
         | | min | p50 | p95 | p99 | max | total | failed |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let parts: [fn(&Latency) -> f64; 5] =
        [|it| it.min, |it| it.p50, |it| it.p95, |it| it.p99, |it| it.max];
    for way in WAYS {
        for language in LANGUAGES {
            let of = Answers::of(result, way, language);
            let rounds = &of.0.0;
            if rounds.is_empty() {
                continue;
            }
            let _ = write!(out, "| {way}, {language} |");
            parts.iter().for_each(|part| cell(of.latency(*part).map(time), out));
            let total: Option<u64> = rounds.iter().map(|one| one.total).sum();
            cell(total.map(|total| total.to_string()), out);
            let failed: u64 = rounds.iter().map(|one| one.failed).sum();
            cell(Some(failed.to_string()), out);
            out.push('\n');
        }
    }
}

/// What Tidewire's rounds of one way in one language found.
struct Answers<'a>(Rounds<'a>);

impl<'a> Answers<'a> {
    fn of(result: &'a SuiteResult, way: &str, language: &str) -> Self {
        Self(Rounds::of(result, "tidewire", &format!("{way}, {language}")))
    }

    fn latency(&self, part: fn(&Latency) -> f64) -> Option<f64> {
        self.0.median(|one| one.latency.as_ref().map(part))
    }

    fn mean(&self) -> Option<f64> {
        self.latency(|it| it.mean)
    }

    fn rate(&self) -> Option<f64> {
        self.0.median(|one| Some(one.ok_per_second))
    }

    fn first(&self) -> Option<f64> {
        self.0.median(|one| one.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::hosting::HOSTING;
    use crate::suite::runner::{Figures, Measurement};

    #[test]
    fn each_way_of_each_language_is_in_the_tables_and_the_tax_is_told_by_ratios() {
        let figures = |case: &str| Figures {
            ok_per_second: if case.starts_with("Pipe warm") { 300.0 } else { 100.0 },
            failed: 2,
            total: Some(52),
            latency: Some(Latency {
                mean: if case.starts_with("Pipe") { 0.002 } else { 0.005 },
                p95: 0.25,
                ..Latency::default()
            }),
            first: Some(if case.starts_with("Pipe") { 0.5 } else { 1.0 }),
            ..Figures::default()
        };
        let measured = HOSTING.cases.iter().flat_map(|case| {
            (0..3).map(|round| Measurement {
                case: case.name.to_owned(),
                peer: "tidewire".to_owned(),
                round,
                figures: Some(figures(case.name)),
                failure: None,
                seconds: Vec::new(),
            })
        });
        let result = SuiteResult { measurements: measured.collect(), ..SuiteResult::default() };
        let text = tables(&result);
        for language in LANGUAGES {
            let glance = format!("| {language} | 5.00 ms, 100/s |");
            assert!(text.contains(&glance), "{language}: {text}");
            let tax = format!(
                "| {language} | HTTP 5.00 ms, pipe 2.00 ms | 2.50 | HTTP 1.00 s, pipe 500 ms | 2.00 | HTTP 100, pipe 300 | 3.00 |"
            );
            assert!(text.contains(&tax), "{language}: {text}");
            for way in WAYS {
                let row =
                    format!("| {way}, {language} | 0 µs | 0 µs | 250 ms | 0 µs | 0 µs | 156 | 6 |");
                assert!(text.contains(&row), "{row}: {text}");
            }
        }
        assert!(!text.contains('–'), "{text}");
        assert!(tables(&SuiteResult::default()).contains("| Go | – |"));
    }
}
