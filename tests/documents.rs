//! Holds the documents to the repository: what they link to exists, and every runbook says how it was
//! rehearsed, by a scenario file beside it or by a test.

#[path = "shared/repository.rs"]
mod repository;

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use repository::{ends_in, files, root};

/// Folders and files with documents.
const DOCUMENTS: [&str; 6] =
    ["docs", "charts", "e2e/README.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"];
/// Fewer links than this means that the test reads the wrong files.
const LEAST_LINKS: usize = 100;
/// The runbooks.
const RUNBOOKS: &str = "docs/runbooks";
/// Who asks for metrics: the alerts of the chart, and its dashboard.
const ALERTS: &str = "charts/punctual/templates/prometheusrule.yaml";
const DASHBOARD: &str = "charts/punctual/files/dashboard.json";
/// Begins the line of a runbook that says how it was rehearsed.
const REHEARSED: &str = "**Rehearsed by:** ";

/// Targets of links in Markdown, without those to other sites.
fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Anchors of all headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// `docs/a/../b.md` without the way back.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
        plain
    })
}

/// What is wrong with a link of a document.
fn fault(document: &str, text: &str, target: &str) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let here = Path::new(document);
    let path = match file {
        "" => here.to_owned(),
        _ => plain(&here.parent().unwrap_or(here).join(file)),
    };
    if !root().join(&path).exists() {
        return Some(format!("{document} links to {target}, which does not exist"));
    }
    if heading.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let there = match file {
        "" => text.to_owned(),
        _ => std::fs::read_to_string(root().join(&path)).expect("it exists"),
    };
    let known = anchors(&there).contains(heading);
    (!known).then(|| format!("{document} links to {target}; there is no such heading"))
}

#[test]
fn what_documents_link_to_exists() {
    let documents: Vec<(String, String)> =
        DOCUMENTS.iter().flat_map(|folder| files(folder, &ends_in("md"))).collect();
    let (mut read, mut faults) = (0, Vec::new());
    for (document, text) in &documents {
        let links = links(text);
        read += links.len();
        faults.extend(links.iter().filter_map(|target| fault(document, text, target)));
    }
    assert!(read >= LEAST_LINKS, "only {read} links in {} documents", documents.len());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let text = "# A b, c\n[x](runbooks/README.md) [y](#a-b-c) [z](https://example.org/x)\n";
    assert_eq!(links(text), ["runbooks/README.md", "#a-b-c"]);
    let of = |target| fault("docs/README.md", text, target);
    for good in ["runbooks/README.md", "#a-b-c", "../README.md", "runbooks/README.md#runbooks"] {
        assert_eq!(of(good), None, "{good}");
    }
    for bad in ["runbooks/NONE.md", "#a-b", "runbooks/README.md#none"] {
        assert!(of(bad).is_some(), "{bad}");
    }
}

/// What a runbook says of its rehearsal: files it links to, and tests in backticks.
fn rehearsals(text: &str) -> (Vec<String>, Vec<String>) {
    let said = text.lines().filter_map(|line| line.strip_prefix(REHEARSED)).collect::<String>();
    let is_name = |word: &&str| word.contains('_') && !word.contains([' ', '/', '.']);
    let tests = said.split('`').skip(1).step_by(2).filter(is_name).map(str::to_owned).collect();
    let files = links(&said).into_iter().filter(|target| target.starts_with("rehearsals/"));
    (files.collect(), tests)
}

#[test]
fn every_runbook_is_rehearsed() {
    let sources: String = ["src", "tests", "e2e"]
        .iter()
        .flat_map(|folder| files(folder, &ends_in("rs")))
        .map(|(_, source)| source)
        .collect();
    let mut unused: BTreeSet<String> = files(&format!("{RUNBOOKS}/rehearsals"), &ends_in("yaml"))
        .into_iter()
        .map(|(path, _)| path.trim_start_matches(&format!("{RUNBOOKS}/")).to_owned())
        .collect();
    let index =
        std::fs::read_to_string(root().join(RUNBOOKS).join("README.md")).expect("it is there");
    let mut faults = Vec::new();
    for (path, text) in files(RUNBOOKS, &ends_in("md")) {
        let name = path.trim_start_matches(&format!("{RUNBOOKS}/")).to_owned();
        if name == "README.md" {
            continue;
        }
        let (files, tests) = rehearsals(&text);
        if files.is_empty() && tests.is_empty() {
            faults.push(format!("{path} does not say by what it was rehearsed"));
        }
        for test in tests.iter().filter(|test| !sources.contains(&format!("fn {test}("))) {
            faults.push(format!("{path} names the test {test}, which does not exist"));
        }
        if !index.contains(&format!("({name})")) {
            faults.push(format!("{path} is not in the table of runbooks"));
        }
        for file in &files {
            unused.remove(file);
        }
    }
    faults.extend(unused.iter().map(|file| format!("{file} belongs to no runbook")));
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics of the reference, which a unit test compares with the program; of a histogram, what
/// Prometheus makes of it.
fn exported() -> BTreeSet<String> {
    let page = read("docs/reference/metrics.md");
    let mut all = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let name = line.split(['`', '{']).next().expect("a split has a first part").to_owned();
        if line.contains("| histogram |") {
            all.extend(["bucket", "count", "sum"].map(|part| format!("{name}_{part}")));
        }
        all.insert(name);
    }
    all
}

/// The metrics that a text asks for.
fn asked_for(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("punctual_")).map(str::to_owned).collect()
}

#[test]
fn alerts_and_the_dashboard_ask_for_metrics_that_the_operator_exports() {
    let exported = exported();
    for (path, least) in [(ALERTS, 8), (DASHBOARD, 10)] {
        let asked = asked_for(&read(path));
        assert!(asked.len() >= least, "{path} was not understood: {asked:?}");
        let unknown: Vec<&String> = asked.difference(&exported).collect();
        assert!(unknown.is_empty(), "{path} asks for {unknown:?}, which are not exported");
    }
    let forged = asked_for("expr: sum(punctual_leaders{namespace=\"x\"}) < 1");
    assert_eq!(forged.difference(&exported).count(), 1, "a metric that does not exist is found");
}

#[test]
fn every_alert_names_a_runbook_that_exists_and_stands_in_the_readme() {
    let (rules, readme) = (read(ALERTS), read("charts/punctual/README.md"));
    let alerts: Vec<(&str, &str)> =
        rules.split("- alert: ").skip(1).filter_map(|rule| rule.split_once('\n')).collect();
    assert!(alerts.len() >= 5, "{ALERTS} was not understood");
    for (alert, rule) in alerts {
        let runbook = rule.split_once("runbook_url: {{ $runbooks }}/").map(|(_, rest)| rest);
        let runbook = runbook.and_then(|rest| rest.lines().next()).unwrap_or_default();
        assert!(
            !runbook.is_empty() && root().join(RUNBOOKS).join(runbook).is_file(),
            "{alert} names the runbook {runbook:?}, which does not exist"
        );
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{alert}` |")));
        let row = row.unwrap_or_else(|| panic!("{alert} is not in the table of the chart"));
        assert!(row.contains(&format!("/{runbook})")), "{row} leads elsewhere than {runbook}");
        for part in ["expr: ", "for: ", "severity: ", "summary: "] {
            assert!(rule.contains(part), "{alert} lacks {part:?}");
        }
        let severity = rule.split_once("severity: ").map(|(_, rest)| rest);
        let severity = severity.and_then(|rest| rest.lines().next()).unwrap_or_default();
        assert!(row.contains(&format!("| {severity} |")), "{row}: its severity is {severity}");
    }
}
