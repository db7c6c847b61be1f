//! `punctual trace`: the record of a takeover as a page for people.

use super::{
    CliError, DONE,
    act::work::{Piece, Work},
    output, program,
    target::{Connection, Output, Target, TargetKind, block_on, is_object_name},
    trouble::Call,
};
use crate::{
    api::{MaintenanceOccurrence, RecoveryTrace, ReportJob, TraceItem},
    cluster::{ApiError, ObjectKey, Person},
};

mod page;

use page::{Now, Page};

/// Arguments of `punctual trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What the present leader found when it took over, and what needs a person since.
  kubectl punctual trace
  # An earlier takeover: by name, or by its epoch.
  kubectl punctual trace punctual-184467 --namespace punctual-system
  kubectl punctual trace 184467 -o json

Without --namespace all namespaces are searched, if you may list there.

Exit codes: 0 done; 1 there is no such record, or something is wrong; 2 bad usage.")]
pub struct Args {
    /// Name or epoch of a RecoveryTrace, or last.
    #[arg(value_name = "NAME", default_value = "last", value_parser = parse_wanted)]
    wanted: Wanted,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// Which record is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Last,
    Epoch(i64),
    Name(String),
}

fn parse_wanted(text: &str) -> Result<Wanted, String> {
    if text == "last" {
        return Ok(Wanted::Last);
    }
    if let Ok(epoch) = text.parse() {
        return Ok(Wanted::Epoch(epoch));
    }
    if let Ok(target) = Target::parse(text, &[TargetKind::RecoveryTrace]) {
        return Ok(Wanted::Name(target.name));
    }
    if is_object_name(text) {
        return Ok(Wanted::Name(text.to_owned()));
    }
    Err("must be last, an epoch like 184467, or a name like punctual-184467".to_owned())
}

/// Runs `punctual trace`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    block_on(async {
        let person = args.connection.connect().await?;
        let all = list(&person, args.connection.names_a_namespace()).await?;
        let newest = all.iter().map(|trace| trace.spec.epoch).max();
        let trace = choose(all, &args.wanted).map_err(|why| {
            CliError::Failed(format!(
                "{why}; --namespace names the namespace of the operator's Lease, where they are"
            ))
        })?;
        let mut now = Vec::new();
        for item in trace.status.iter().flat_map(|status| &status.items) {
            now.push(look(&person, item).await);
        }
        let page = Page::of(&trace, newest, &now, program());
        output::print(args.output, &page, || page.text())?;
        Ok(DONE)
    })
}

/// The records of one namespace, or of all that the person may list.
async fn list(person: &Person, one: bool) -> Result<Vec<RecoveryTrace>, CliError> {
    let call = Call::of::<RecoveryTrace>("list", person);
    let reader = person.reader();
    let here = Some(person.namespace());
    let listed = match reader.list(if one { here } else { None }, None).await {
        Err(ApiError::Forbidden { .. }) if !one => reader.list(here, None).await,
        listed => listed,
    };
    match listed {
        Ok(listed) => Ok(listed.items),
        // A list of a kind that is not there.
        Err(ApiError::NotFound) => Err(CliError::Failed(format!(
            "the cluster at {} does not know the kind RecoveryTrace: install Punctual there, or choose \
             another with --context",
            person.server()
        ))),
        Err(error) => Err(call.failed(error)),
    }
}

fn choose(all: Vec<RecoveryTrace>, wanted: &Wanted) -> Result<RecoveryTrace, String> {
    let none = match wanted {
        Wanted::Last => "there is no RecoveryTrace".to_owned(),
        Wanted::Epoch(epoch) => format!("there is no RecoveryTrace of epoch {epoch}"),
        Wanted::Name(name) => format!("there is no RecoveryTrace {name:?}"),
    };
    all.into_iter()
        .filter(|trace| match wanted {
            Wanted::Last => true,
            Wanted::Epoch(epoch) => trace.spec.epoch == *epoch,
            Wanted::Name(name) => trace.metadata.name.as_ref() == Some(name),
        })
        .max_by_key(|trace| trace.spec.epoch)
        .ok_or(none)
}

/// How an item stands now.
async fn look(person: &Person, item: &TraceItem) -> Now {
    let Some((namespace, target)) = named(item) else { return Now::NotRead };
    let key = ObjectKey::new(namespace, target.name);
    let work = match target.kind {
        TargetKind::ReportJob => get::<ReportJob>(person, &key).await,
        _ => get::<MaintenanceOccurrence>(person, &key).await,
    };
    match work {
        Ok(Some(work)) => Now::There(Box::new(work)),
        Ok(None) => Now::Gone,
        Err(ApiError::Malformed { .. }) => Now::Unreadable,
        Err(_) => Now::NotRead,
    }
}

async fn get<K: Piece>(person: &Person, key: &ObjectKey) -> Result<Option<Work>, ApiError> {
    Ok(person.reader().get::<K>(key).await?.map(|seen| seen.work()))
}

/// Namespace and object of an item, which is written `<namespace>/<kind>/<name>`.
fn named(item: &TraceItem) -> Option<(&str, Target)> {
    let (namespace, object) = item.object.split_once('/')?;
    Some((namespace, Target::parse(object, &super::target::WORK).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_by_name_or_epoch() {
        assert_eq!(parse_wanted("last"), Ok(Wanted::Last));
        assert_eq!(parse_wanted("184467"), Ok(Wanted::Epoch(184_467)));
        for text in ["punctual-184467", "rtrace/punctual-184467"] {
            assert_eq!(parse_wanted(text), Ok(Wanted::Name("punctual-184467".to_owned())));
        }
        assert!(parse_wanted("msched/x").is_err());
    }

    #[test]
    fn the_last_one_has_the_highest_epoch() {
        let all =
            || [7, 30, 9].map(|epoch| page::made::trace(epoch, &serde_json::json!({}))).to_vec();
        let epoch = |wanted| choose(all(), &wanted).map(|trace| trace.spec.epoch);
        assert_eq!(epoch(Wanted::Last), Ok(30));
        assert_eq!(epoch(Wanted::Epoch(9)), Ok(9));
        assert_eq!(epoch(Wanted::Name("punctual-7".to_owned())), Ok(7));
        assert!(epoch(Wanted::Epoch(8)).unwrap_err().contains("epoch 8"));
        assert!(choose(Vec::new(), &Wanted::Last).is_err());
    }

    #[test]
    fn items_name_objects_of_any_namespace() {
        let item = |object: &str| TraceItem {
            object: object.to_owned(),
            class: crate::api::RecoveryClass::Uncertain,
            reason: String::new(),
            message: String::new(),
        };
        let one = item("docs/mocc/a");
        let (namespace, target) = named(&one).unwrap();
        assert_eq!((namespace, target.to_string().as_str()), ("docs", "mocc/a"));
        for wrong in ["docs", "docs/mocc", "docs/cronjob/a", "docs/mocc/../a"] {
            assert!(named(&item(wrong)).is_none(), "{wrong}");
        }
    }
}
