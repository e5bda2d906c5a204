//! A `manifest.xml` of local_lambdas as a `tidewire.toml`, and what becomes of each part of it.
//!
//! The manifest lists processes by elements; its own reader took attributes for elements, and so
//! does this one. It is read without a DTD, so that it names no entities and no other files.

use std::fmt;

use roxmltree::{Document, Node, ParsingOptions};

use super::process::{Mode, Process};

/// What an import came to.
#[derive(Debug)]
pub(crate) struct ManifestImport {
    /// The settings, as the text of a file.
    pub(crate) text: String,
    /// What became of each part, in the order of the manifest.
    pub(crate) notes: Vec<Note>,
    /// How many processes it has, and how many of them the settings run.
    pub(crate) processes: usize,
    pub(crate) services: usize,
}

/// What became of one part of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) line: u32,
    /// The element or attribute.
    pub(crate) part: String,
    pub(crate) text: String,
    /// Whether it is lost.
    pub(crate) is_left_out: bool,
}

/// Why a manifest cannot be read, and on which line.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) line: u32,
    pub(crate) text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, part, text, .. } = self;
        write!(f, "{line}: {part}: {text}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.text)
    }
}

/// Reads a manifest.
///
/// # Errors
/// Text that is not XML, that has a DTD, or whose root is not `manifest`.
pub(crate) fn import(xml: &str) -> Result<ManifestImport, Fault> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).map_err(|error| {
        let text = match error {
            roxmltree::Error::DtdDetected => {
                "a DTD (<!DOCTYPE …>) is not read; remove it".to_owned()
            }
            roxmltree::Error::NodesLimitReached => {
                format!("it has more than {NODES_MAX} elements, attributes and texts; split it")
            }
            ref error => format!("not valid XML: {error}"),
        };
        Fault { line: error.pos().row.max(1), text }
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "manifest" {
        let text = format!("the root is <{}>; a manifest has <manifest>", root.tag_name().name());
        return Err(Fault { line: line_of(root), text });
    }
    let mut notes = Vec::new();
    let mut processes = Vec::new();
    for attribute in root.attributes() {
        let line = document.text_pos_at(attribute.range().start).row;
        notes.push(Note::left_out(line, attribute.name(), "an attribute of manifest"));
    }
    for node in root.children() {
        match node.is_element() {
            true if node.tag_name().name() == "process" => {
                processes.push(Process::read(node, &mut notes));
            }
            true => notes.push(Note::left_out(line_of(node), node.tag_name().name(), NOT_KNOWN)),
            false => note_text(node, "manifest", &mut notes),
        }
    }
    let count = processes.len();
    let whole = processes.into_iter().flatten().collect();
    let (text, services) = settings(whole, &mut notes);
    notes.sort_by_key(|note| note.line);
    Ok(ManifestImport { text, notes, processes: count, services })
}

impl Note {
    pub(super) fn new(line: u32, part: impl Into<String>, text: impl Into<String>) -> Self {
        Self { line, part: part.into(), text: text.into(), is_left_out: false }
    }

    pub(super) fn left_out(line: u32, part: impl Into<String>, why: &str) -> Self {
        let text = format!("left out: {why}");
        Self { line, part: part.into(), text, is_left_out: true }
    }
}

/// Says that a text stands where none belongs.
pub(super) fn note_text(node: Node<'_, '_>, within: &str, notes: &mut Vec<Note>) {
    let Some(text) = node.text().filter(|text| node.is_text() && !text.trim().is_empty()) else {
        return;
    };
    let before = text.len() - text.trim_start().len();
    let line = node.document().text_pos_at(node.range().start + before).row;
    notes.push(Note::left_out(line, within, "text between its elements"));
}

/// On which line a node begins.
pub(super) fn line_of(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// The settings that run these processes, and how many they run.
fn settings(processes: Vec<Process>, notes: &mut Vec<Note>) -> (String, usize) {
    let mut text = HEAD.to_owned();
    let mut earlier: Vec<Process> = Vec::new();
    for mut process in processes {
        let same = earlier.iter().find(|known| known.route.path == process.route.path);
        if let Some(same) = same {
            let why = format!(
                "line {} has the same route, comes first, and gets all of its requests there, too",
                same.line
            );
            notes.push(Note::left_out(process.line, "process", &why));
            continue;
        }
        let covering = earlier.iter().find(|known| known.route.covers(&process.route));
        if let Some(covering) = covering {
            let change = format!(
                "there {} of line {} came first and got these requests; here the longer route does",
                covering.route.path, covering.line
            );
            notes.push(Note::new(process.route.line, "route", change));
        }
        name_once(&mut process, &earlier, notes);
        text.push_str(&process.settings());
        earlier.push(process);
    }
    (text, earlier.len())
}

/// Gives a process a name that none before it has.
fn name_once(process: &mut Process, earlier: &[Process], notes: &mut Vec<Note>) {
    let is_free = |name: &str| earlier.iter().all(|known| known.name != name);
    if is_free(&process.name) {
        return;
    }
    let mut names = (2..).map(|number| format!("{}-{number}", process.name));
    let name = names.find(|name| is_free(name)).unwrap_or_default();
    let change = format!("another process is called so, too; it is called {name:?} here");
    notes.push(Note::new(process.line, "id", change));
    process.name = name;
}

impl Mode {
    /// What `communication_mode` says.
    pub(super) fn of(text: &str) -> Option<Self> {
        match text {
            "pipe" => Some(Self::Pipe),
            "http" => Some(Self::Http),
            _ => None,
        }
    }
}

pub(super) const NOT_KNOWN: &str = "a manifest of local_lambdas has nothing of this name";

/// So many elements, attributes and texts are read.
const NODES_MAX: u32 = 100_000;

const HEAD: &str = "\
# Written by `tidewire import`; `tidewire check` looks it through, `tidewire serve` runs it.
#
# What differs for every process: it is started by its first request and ended after 5 minutes
# without one (idle_stop), it sees the query of a request, and of the variables of the gateway it
# gets PATH, HOME and few others; add what else it needs by environment = { NAME = \"value\" }.
# The gateway listens at 127.0.0.1:8080, where local_lambdas had BIND_ADDRESS:
#
# [server]
# listen = \"127.0.0.1:3000\"
";

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(inner: &str) -> ManifestImport {
        import(&format!("<manifest>\n{inner}\n</manifest>")).unwrap()
    }

    /// The notes of a manifest as they are printed, and its settings without their head.
    fn told(inner: &str) -> (String, String) {
        let imported = manifest(inner);
        let notes = imported.notes.iter().map(|note| format!("{note}\n")).collect();
        (notes, imported.text.strip_prefix(HEAD).unwrap().to_owned())
    }

    const SHOP: &str = "<process>
<id>shop</id>
<executable>./bin/shop</executable>
<arg>--mode</arg>
<arg> a \"b\" </arg>
<route>/shop/*</route>
<pipe_name>shop_pipe</pipe_name>
<working_dir>services/shop</working_dir>
</process>";

    #[test]
    fn every_element_of_a_process_is_told() {
        let (notes, text) = told(SHOP);
        assert_eq!(
            notes,
            "3: id: name = \"shop\"\n\
             4: executable: run, its first word\n\
             5: arg: run, word 2\n\
             6: arg: run, word 3\n\
             7: route: route = \"/shop/*\"; there it matched every path that begins with /shop, such as /shopX, too\n\
             8: pipe_name: needed no more: the gateway makes a socket for each process and names it in PIPE_ADDRESS\n\
             9: working_dir: folder = \"services/shop\"\n"
        );
        assert_eq!(
            text,
            "\n[[service]]\nname = \"shop\"\nroute = \"/shop/*\"\nprotocol = \"pipe-json\"\n\
             run = [\"./bin/shop\",\"--mode\",\"a \\\"b\\\"\"]\nfolder = \"services/shop\"\n"
        );
    }

    #[test]
    fn a_process_of_http_is_told_its_port_as_it_was() {
        let inner = SHOP.replace("</id>", "</id><communication_mode>http</communication_mode>");
        let (notes, text) = told(&inner);
        assert!(
            notes.contains("3: communication_mode: run begins with env HTTP_ADDRESS="),
            "{notes}"
        );
        assert!(
            notes.contains("8: pipe_name: needed no more: the gateway chooses a free port"),
            "{notes}"
        );
        assert!(
            text.contains("run = [\"env\",\"HTTP_ADDRESS=127.0.0.1:{port}\",\"./bin/shop\","),
            "{text}"
        );
        assert!(text.contains("watch = [\"./bin/shop\"]\n"), "{text}");
        assert!(!text.contains("protocol"), "{text}");
    }

    #[test]
    fn attributes_are_read_as_elements() {
        let (notes, text) =
            told("<process id='a' executable='x'\nroute='/a' colour='red' pipe_name='p'/>");
        assert!(text.contains("name = \"a\"\nroute = \"/a\"\n"), "{text}");
        assert!(notes.contains("3: colour: left out: "), "{notes}");
    }

    #[test]
    fn what_has_no_counterpart_is_told_with_its_line() {
        let more =
            "<environment>\n<A>b</A></environment>\n<route>/other</route>\nstray\n</process>";
        let inner = format!("<limits/>\n{}", SHOP.replace("</process>", more));
        let imported = manifest(&inner);
        let left_out: Vec<_> = imported
            .notes
            .iter()
            .filter(|note| note.is_left_out)
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            left_out,
            [
                "2: limits: left out: a manifest of local_lambdas has nothing of this name",
                "11: environment: left out: a manifest of local_lambdas has nothing of this name",
                "13: route: left out: it occurs twice, and the first one counts",
                "14: process: left out: text between its elements",
            ]
        );
        assert_eq!((imported.processes, imported.services), (1, 1));
    }

    #[test]
    fn nothing_within_an_element_is_lost_unsaid() {
        let inner = SHOP.replace(
            "<working_dir>services/shop</working_dir>",
            "<working_dir/>\n<arg kind='a'>x<b>y</b></arg>",
        );
        let (notes, text) = told(&inner);
        for part in [
            "9: working_dir: empty, which says nothing\n",
            "10: arg: left out: its attributes\n",
            "10: arg: left out: elements within it\n",
            "10: arg: run, word 4\n",
        ] {
            assert!(notes.contains(part), "{part:?} is not in\n{notes}");
        }
        assert!(text.contains("\"x\"]") && !text.contains("folder"), "{text}");
    }

    #[test]
    fn a_process_that_could_not_run_there_is_left_out() {
        for (from, to, why) in [
            ("<id>shop</id>", "<id> </id>", "2: process: left out: it has no id"),
            (
                "<executable>./bin/shop</executable>",
                "",
                "2: process: left out: it has no executable",
            ),
            ("/shop/*", "shop", "7: route: left out: \"shop\" does not begin with /"),
            ("/shop/*", "/a?b", "7: route: left out: route \"/a?b\" is invalid"),
            (
                "<id>",
                "<communication_mode>tcp</communication_mode><id>",
                "3: communication_mode: left out: \"tcp\" is neither pipe nor http",
            ),
        ] {
            let imported = manifest(&SHOP.replace(from, to));
            let told: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            assert!(told.contains(why), "{to}: {told}");
            assert_eq!(imported.services, 0, "{to}");
        }
    }

    #[test]
    fn routes_and_names_that_clash_are_told() {
        let of = |id: &str, route: &str| {
            let process = SHOP.replace(">shop<", &format!(">{id}<"));
            process.replace("/shop/*", route).replace('\n', "")
        };
        let inner = [of("a", "/*"), of("a", "/a/"), of("b", "/a/*"), of("c", "/")].join("\n");
        let (notes, text) = told(&inner);
        for part in [
            "3: route: there /* of line 2 came first and got these requests; here the longer route does\n",
            "3: route: route = \"/a/*\"; it gets /a itself, too\n",
            "3: id: another process is called so, too; it is called \"a-2\" here\n",
            "4: process: left out: line 3 has the same route, comes first, and gets all of its requests there, too\n",
            "5: process: left out: line 2 has the same route",
        ] {
            assert!(notes.contains(part), "{part:?} is not in\n{notes}");
        }
        assert_eq!(text.matches("[[service]]").count(), 2, "{text}");
    }

    #[test]
    fn what_is_not_a_manifest_is_an_error_with_its_line() {
        for (xml, why) in [
            ("<manifest>\n<process>\n</manifest>", "3: not valid XML: "),
            ("", "1: not valid XML: "),
            (
                "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><manifest>&b;</manifest>",
                "1: a DTD",
            ),
            ("<manifest>&b;</manifest>", "1: not valid XML: "),
            ("\n<web-app/>", "2: the root is <web-app>"),
        ] {
            let fault = import(xml).unwrap_err().to_string();
            assert!(fault.starts_with(why), "{xml}: {fault}");
        }
        let many = format!("<manifest>{}</manifest>", "<process/>".repeat(100_001));
        let fault = import(&many).unwrap_err().to_string();
        assert!(fault.contains("more than 100000"), "{fault}");
    }
}
