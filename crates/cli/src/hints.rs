//! What somebody meant whose words clap knows none like.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use nagori_values::nearest;

/// The error with a suggestion, where it has none and there is one. clap compares by letters at
/// their places, and so finds nothing near `rnu`.
pub fn hinted(mut e: Error, root: &Command, arguments: &[String]) -> Error {
    let (wrong, suggested) = match e.kind() {
        ErrorKind::InvalidSubcommand => (
            ContextKind::InvalidSubcommand,
            ContextKind::SuggestedSubcommand,
        ),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidValue => (ContextKind::InvalidValue, ContextKind::SuggestedValue),
        _ => return e,
    };
    if e.get(suggested).is_some() {
        return e;
    }
    let Some(ContextValue::String(word)) = e.get(wrong).cloned() else {
        return e;
    };
    let known: Vec<String> = match e.kind() {
        ErrorKind::InvalidSubcommand => {
            let all = innermost(root, arguments).get_subcommands();
            all.map(|c| c.get_name().to_owned()).collect()
        }
        ErrorKind::UnknownArgument => {
            let all = innermost(root, arguments).get_arguments();
            let long = all.filter_map(|a| a.get_long());
            long.map(|l| format!("--{l}")).collect()
        }
        _ => match e.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(all)) => all.clone(),
            _ => Vec::new(),
        },
    };
    if let Some(meant) = nearest(&word, known.iter().map(String::as_str)) {
        let meant = meant.to_owned();
        let value = match suggested {
            ContextKind::SuggestedSubcommand => ContextValue::Strings(vec![meant]),
            _ => ContextValue::String(meant),
        };
        e.insert(suggested, value);
    }
    e
}

/// The command that the first of the arguments name.
fn innermost<'c>(root: &'c Command, arguments: &[String]) -> &'c Command {
    let mut at = root;
    let words = arguments.iter().filter(|a| !a.starts_with('-'));
    for word in words {
        match at.find_subcommand(word) {
            Some(command) => at = command,
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn slips_get_a_suggestion() {
        for (line, meant) in [
            ("nagori rnu", Some("'run'")),
            ("nagori mme run", Some("'mem'")),
            ("nagori mem swep", Some("'sweep'")),
            ("nagori mem show ddr3 --sjon", Some("'--json'")),
            ("nagori mem gen rnadom -o x", Some("'random'")),
            ("nagori zzz", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let e = Cli::try_parse_from(&words).unwrap_err();
            let text = hinted(e, &Cli::command(), &words[1..]).to_string();
            match meant {
                Some(m) => assert!(
                    text.contains("similar") && text.contains(m),
                    "{line}: {text}"
                ),
                None => assert!(!text.contains("similar"), "{line}: {text}"),
            }
        }
    }
}
