//! Holds `docs/requirements.md` to the contracts and to the tests: every requirement that a contract
//! marks like `**[ID-1]**` has a row, every row names tests, and every named test exists.
//!
//! The table is `| id | requirement | tests |`; tests are names in backticks, with or without their
//! module path.

#[path = "shared/repository.rs"]
mod repository;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use repository::{ends_in, files, root};

/// One row of the table.
#[derive(Debug, PartialEq)]
struct Row {
    id: String,
    tests: Vec<String>,
}

/// Rows of all tables in `text`: lines whose first cell is an id.
fn rows(text: &str) -> Vec<Row> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 3 && is_id(cells[0]))
        .map(|cells| Row { id: cells[0].to_owned(), tests: backticked(cells[2]) })
        .collect()
}

/// `ID-1`, `CLOCK-12`: capitals, a hyphen, a number.
fn is_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(word, number)| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

/// The last part of each name in backticks.
fn backticked(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|name| name.rsplit("::").next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Ids that a contract marks in bold brackets.
fn marked(text: &str) -> Vec<String> {
    text.split("**[")
        .skip(1)
        .filter_map(|rest| rest.split_once("]**"))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// Names of test functions in `source`: `fn name(` under an attribute that ends in `test` or
/// `test(…)`. Helpers are no tests.
fn tests_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut under_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            under_test |= is_test_attribute(line);
        } else if let Some(name) = function_name(line) {
            if under_test {
                names.push(name.to_owned());
            }
            under_test = false;
        } else if !(line.is_empty() || line.starts_with("//")) {
            under_test = false;
        }
    }
    names
}

fn is_test_attribute(line: &str) -> bool {
    let inner = line.trim_start_matches("#[").split([']', '(']).next().unwrap_or("");
    inner.rsplit("::").next() == Some("test")
}

fn function_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// What is wrong, a line each.
fn faults(rows: &[Row], marked: &[String], tests: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *seen.entry(&row.id).or_default() += 1;
        if row.tests.is_empty() {
            found.push(format!("{} names no test", row.id));
        }
        for test in row.tests.iter().filter(|test| !tests.contains(*test)) {
            found.push(format!("{} names the test {test}, which does not exist", row.id));
        }
        if !marked.contains(&row.id) {
            found.push(format!("{} is in no contract", row.id));
        }
    }
    found.extend(seen.iter().filter(|(_, n)| **n > 1).map(|(id, n)| format!("{id} has {n} rows")));
    let unique: BTreeSet<&String> = marked.iter().collect();
    for id in unique {
        if !is_id(id) {
            found.push(format!("[{id}] in a contract is no id such as ID-1"));
        } else if !seen.contains_key(id.as_str()) {
            found.push(format!("{id} of a contract has no row"));
        }
        if marked.iter().filter(|other| *other == id).count() > 1 {
            found.push(format!("{id} is marked more than once"));
        }
    }
    found
}

#[test]
fn every_requirement_has_tests_that_exist() {
    let table = fs::read_to_string(root().join("docs/requirements.md")).expect("it is there");
    let rows = rows(&table);
    assert!(!rows.is_empty(), "docs/requirements.md has no row");
    let marked: Vec<String> =
        files("docs/contracts", &ends_in("md")).iter().flat_map(|(_, text)| marked(text)).collect();
    assert!(!marked.is_empty(), "docs/contracts marks no requirement");
    let tests: BTreeSet<String> = ["src", "tests", "e2e"]
        .iter()
        .flat_map(|folder| files(folder, &ends_in("rs")))
        .flat_map(|(_, source)| tests_in(&source))
        .collect();
    let faults = faults(&rows, &marked, &tests);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn rows_are_read_and_headings_are_not() {
    let text = "# T\n\n| id | requirement | tests |\n|---|---|---|\n| ID-1 | a \\ b | `identity::tests::a`, `b` |\n| ID-2 | c | none |\nID-3 | x | `y`\n";
    assert_eq!(
        rows(text),
        [
            Row { id: "ID-1".into(), tests: vec!["a".into(), "b".into()] },
            Row { id: "ID-2".into(), tests: vec![] },
        ]
    );
}

#[test]
fn only_marked_tests_count() {
    let source = "#[test]\nfn a() {}\n\nfn helper() {}\n#[tokio::test(start_paused = true)]\n#[ignore = \"x\"]\nasync fn b() {}\n#[cfg(test)]\nfn c() {}\n#[test]\n// why\nfn d() {}\n#[derive(Test)]\nstruct S;\nfn e() {}\n";
    assert_eq!(tests_in(source), ["a", "b", "d"]);
}

#[test]
fn forged_faults_are_found() {
    let tests: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
    let row = |id: &str, tests: &[&str]| Row {
        id: id.into(),
        tests: tests.iter().map(|&test| test.to_owned()).collect(),
    };
    let marks = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
    let good =
        faults(&[row("ID-1", &["a"]), row("ID-2", &["a", "b"])], &marks(&["ID-1", "ID-2"]), &tests);
    assert_eq!(good, Vec::<String>::new());
    let cases: [(&str, Vec<Row>, Vec<String>); 7] = [
        ("ID-1 names no test", vec![row("ID-1", &[])], marks(&["ID-1"])),
        (
            "ID-1 names the test gone, which does not exist",
            vec![row("ID-1", &["a", "gone"])],
            marks(&["ID-1"]),
        ),
        ("ID-2 of a contract has no row", vec![row("ID-1", &["a"])], marks(&["ID-1", "ID-2"])),
        (
            "ID-2 is in no contract",
            vec![row("ID-1", &["a"]), row("ID-2", &["a"])],
            marks(&["ID-1"]),
        ),
        ("ID-1 has 2 rows", vec![row("ID-1", &["a"]), row("ID-1", &["b"])], marks(&["ID-1"])),
        ("ID-1 is marked more than once", vec![row("ID-1", &["a"])], marks(&["ID-1", "ID-1"])),
        ("[ID1] in a contract is no id such as ID-1", vec![], marks(&["ID1"])),
    ];
    for (fault, rows, marked) in cases {
        assert_eq!(faults(&rows, &marked, &tests), [fault]);
    }
}

#[test]
fn marks_are_read_from_running_text() {
    assert_eq!(marked("x **[ID-1]** y\n* **[ID-2]** z [ID-3] **bold**"), ["ID-1", "ID-2"]);
}
