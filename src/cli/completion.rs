//! `punctual completion`: what a shell needs to complete the command line. kubectl asks for itself:
//! it runs `kubectl_complete-punctual` with the words after `kubectl punctual`.

use clap::Arg;
use clap_complete::{Shell, generate};

use super::{CliError, DONE, command, output};

/// The name by which kubectl calls this program to complete `kubectl punctual`.
pub const COMPLETER: &str = "kubectl_complete-punctual";

/// To kubectl: these are all, and no names of files. See the shell completions of its library cobra.
const NOTHING_ELSE: &str = ":4";
/// To kubectl: names of files may follow.
const FILES_TOO: &str = ":0";

/// Arguments of `punctual completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # For this shell only.
  source <(punctual completion bash)
  # For good.
  punctual completion zsh > \"${fpath[1]}/_punctual\"
  punctual completion fish > ~/.config/fish/completions/punctual.fish
  # kubectl completes `kubectl punctual` by itself if it finds this name on the PATH.
  ln -s \"$(command -v punctual)\" ~/.local/bin/kubectl_complete-punctual

The script is for the name by which this program was called.")]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> Result<u8, CliError> {
    output::write(&script(args.shell, super::file_name()))?;
    Ok(DONE)
}

fn script(shell: Shell, name: &str) -> String {
    let mut script = Vec::new();
    generate(shell, &mut command(), name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Prints what may stand in the place of the last word.
pub fn for_kubectl() -> Result<u8, CliError> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    output::write(&answer(&words))?;
    Ok(DONE)
}

/// One candidate a line, and what else may follow.
fn answer(words: &[String]) -> String {
    let mut root = command();
    root.build();
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, rest)| (last, rest));
    let here = before.iter().fold(&root, |at, word| at.find_subcommand(word).unwrap_or(at));
    let takes_value = before.last().and_then(|word| option(here, word));
    let found: Vec<String> = match takes_value {
        Some(option) => values(option),
        None if last.starts_with('-') => here
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect(),
        None => {
            let positional = here.get_positionals().flat_map(values);
            here.get_subcommands().map(|one| one.get_name().to_owned()).chain(positional).collect()
        }
    };
    let files = takes_value.is_some() && found.is_empty();
    let mut lines: Vec<String> = found.into_iter().filter(|one| one.starts_with(last)).collect();
    lines.push(if files { FILES_TOO } else { NOTHING_ELSE }.to_owned());
    lines.join("\n") + "\n"
}

/// The option that this word is, if a value follows it.
fn option<'a>(command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let named = |argument: &&Arg| {
        let short = argument.get_short().map(|short| format!("-{short}"));
        let long = argument.get_long().map(|long| format!("--{long}"));
        [short, long].iter().flatten().any(|name| name == word)
    };
    let found = command.get_arguments().find(named)?;
    (found.get_action().takes_values() && !found.is_require_equals_set()).then_some(found)
}

fn values(argument: &Arg) -> Vec<String> {
    let values = argument.get_possible_values();
    values.iter().filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_learns_commands_and_flags() {
        for (shell, register) in [
            (Shell::Bash, "complete -F _kubectl__punctual "),
            (Shell::Zsh, "#compdef kubectl-punctual"),
            (Shell::Fish, "complete -c kubectl-punctual"),
        ] {
            let script = script(shell, "kubectl-punctual");
            for part in [register, "resolve", "accept-duplicate"] {
                assert!(script.contains(part), "{shell}: {part} is not in\n{script}");
            }
        }
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        answer(&words).lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn kubectl_is_told_what_may_stand_in_the_place_of_the_last_word() {
        assert_eq!(lines(&["res"]), ["resolve", "resubmit", "resume", ":4"]);
        assert_eq!(lines(&["resolve", "--acc"]), ["--accept-duplicate", ":4"]);
        assert_eq!(lines(&["cancel", "mocc/x", "-o", "j"]), ["json", ":4"]);
        assert_eq!(lines(&["plan", "--file", ""]), [":0"], "a file follows");
        assert_eq!(lines(&["completion", "z"]), ["zsh", ":4"]);
        assert!(lines(&[]).contains(&"cancel".to_owned()));
        assert_eq!(lines(&["no-such-command", "--no"]), [":4"]);
    }
}
