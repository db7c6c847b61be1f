//! Reads and watches, through clients.

use std::{pin::pin, time::Duration};

use futures::{Stream, TryStreamExt as _};
use kube::{
    Api,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
    core::DynamicObject,
};
use tokio::time::{Instant, timeout};

use super::*;
use crate::{
    api::MaintenanceSchedule,
    sim::api::{Deletion, Server, Subresource},
};

fn api(server: &Server) -> Api<MaintenanceSchedule> {
    Api::namespaced(server.client("person"), "docs")
}

/// A model whose clock is the runtime's virtual time.
fn live_model() -> Model {
    let clock = WallClock::driven("2026-11-29T01:58:30Z".parse().unwrap());
    let model = Model::new(clock.clone());
    model.install_crds();
    model.add_namespace("docs");
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.set(clock.now() + Duration::from_millis(1));
        }
    });
    model
}

/// The next event, as a word and a name.
async fn next(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<MaintenanceSchedule>>> + Unpin),
) -> Option<String> {
    let name = |object: MaintenanceSchedule| object.metadata.name.unwrap();
    Some(match timeout(Duration::from_secs(120), events.try_next()).await.unwrap().unwrap()? {
        WatchEvent::Added(object) => format!("added {}", name(object)),
        WatchEvent::Modified(object) => format!("modified {}", name(object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(object)),
        WatchEvent::Bookmark(mark) => format!("bookmark {}", mark.metadata.resource_version),
        WatchEvent::Error(status) => format!("error {}", status.code),
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_of_one_moment_until_that_is_forgotten() {
    let model = model();
    for name in ["a", "b", "c", "d", "e"] {
        create(&model, schedule(name));
    }
    let api = api(&model.server(0));
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    create(&model, schedule("bb"));
    model.write("person", Request::delete(&schedule_key("d"), Deletion::default())).unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = api.list(&ListParams::default().limit(9).continue_token(&token)).await.unwrap();
    let names: Vec<_> = second.items.iter().map(|one| one.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(second.metadata.continue_, None);
    model.compact();
    let gone = api.list(&ListParams::default().continue_token(&token)).await.unwrap_err();
    assert!(
        matches!(gone, kube::Error::Api(status) if status.code == 410 && status.reason == "Expired")
    );
    let labelled = ListParams::default().labels("app=x");
    assert!(api.list(&labelled).await.unwrap().items.is_empty());
    let by_name = ListParams::default().fields("metadata.name=bb");
    assert_eq!(api.list(&by_name).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_every_change_after_its_version_and_ends_in_time() {
    let model = live_model();
    create(&model, schedule("a"));
    let from = model.revision().to_string();
    create(&model, schedule("b"));
    let api = api(&model.server(0));
    let params = WatchParams::default().timeout(70);
    let opened = Instant::now();
    let mut events = pin!(api.watch(&params, &from).await.unwrap());
    assert_eq!(next(&mut events).await.unwrap(), "added b");
    model
        .edit("person", &schedule_key("a"), Subresource::Main, |a| {
            a["spec"]["suspend"] = true.into();
        })
        .unwrap();
    assert_eq!(next(&mut events).await.unwrap(), "modified a");
    model.write("person", Request::delete(&schedule_key("a"), Deletion::default())).unwrap();
    assert_eq!(next(&mut events).await.unwrap(), "deleted a");
    let mark = format!("bookmark {}", model.revision());
    assert_eq!(next(&mut events).await.unwrap(), mark);
    assert_eq!(opened.elapsed().as_secs(), 60);
    assert_eq!(next(&mut events).await.unwrap(), mark, "shortly before the end");
    assert_eq!(next(&mut events).await, None);
    assert_eq!(opened.elapsed().as_secs(), 70);
}

#[tokio::test(start_paused = true)]
async fn what_a_selector_no_longer_matches_is_shown_as_deleted() {
    let model = model();
    create(&model, schedule("a"));
    let api = api(&model.server(0));
    let params = WatchParams::default().labels("app=x");
    let from = model.revision().to_string();
    let mut events = pin!(api.watch(&params, &from).await.unwrap());
    let label = |value| json!({"metadata": {"labels": {"app": value}}});
    for value in ["y", "x", "x", "y"] {
        model.write("person", Request::patch(&schedule_key("a"), label(value))).unwrap();
    }
    assert_eq!(next(&mut events).await.unwrap(), "added a");
    assert_eq!(next(&mut events).await.unwrap(), "deleted a");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_compaction_is_told_to_list_again() {
    let model = model();
    create(&model, schedule("a"));
    let from = model.revision().to_string();
    let api = api(&model.server(0));
    let mut running = pin!(api.watch(&WatchParams::default(), &from).await.unwrap());
    create(&model, schedule("b"));
    assert_eq!(next(&mut running).await.unwrap(), "added b");
    model.compact();
    let mut late = pin!(api.watch(&WatchParams::default(), &from).await.unwrap());
    assert_eq!(next(&mut late).await.unwrap(), "error 410");
    assert_eq!(next(&mut late).await, None);
    create(&model, schedule("c"));
    assert_eq!(next(&mut running).await.unwrap(), "added c", "who is up to date goes on");
    create(&model, schedule("d"));
    model.compact();
    assert_eq!(next(&mut running).await.unwrap(), "error 410");
}

#[tokio::test(start_paused = true)]
async fn servers_show_one_store_with_their_own_delay() {
    let model = live_model();
    let (prompt, late) = (model.server(0), model.server(1));
    late.set_watch_lag(Duration::from_secs(3));
    let from = model.revision().to_string();
    let (on_time, delayed) = (api(&prompt), api(&model.server(1)));
    let params = WatchParams::default();
    let mut first = pin!(on_time.watch(&params, &from).await.unwrap());
    let mut second = pin!(delayed.watch(&params, &from).await.unwrap());
    let start = Instant::now();
    create(&model, schedule("a"));
    assert_eq!(next(&mut first).await.unwrap(), "added a");
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(next(&mut second).await.unwrap(), "added a");
    assert_eq!(start.elapsed().as_secs(), 3);
    late.set_watch_lag(Duration::ZERO);
    late.stale_reads_until(model.elapsed() + Duration::from_secs(5));
    let start = Instant::now();
    create(&model, schedule("b"));
    assert_eq!(delayed.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(on_time.list(&ListParams::default()).await.unwrap().items.len(), 2);
    assert!(delayed.get("b").await.is_ok(), "single reads are live");
    assert_eq!(next(&mut second).await.unwrap(), "added b");
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(delayed.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_its_crd_is_not_served() {
    let model = Model::new(WallClock::driven("2026-11-29T01:58:30Z".parse().unwrap()));
    let api = Api::<MaintenanceSchedule>::all(model.server(0).client("person"));
    let missing = api.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
    model.install_crds();
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_next_commit_is_woken() {
    let model = model();
    let changed = model.changed();
    create(&model, schedule("a"));
    changed.await;
    let changed = model.changed();
    assert!(timeout(Duration::from_secs(1), changed).await.is_err(), "nothing happened");
}

/// Objects of a built-in kind are read by the same client.
#[tokio::test(start_paused = true)]
async fn objects_can_be_created_through_a_client() {
    let model = model();
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let api: Api<DynamicObject> = Api::all_with(model.server(0).client("node"), &resource);
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let made = api.create(&PostParams::default(), &node).await.unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some("n"));
    assert_eq!(model.list(Kind::Node).len(), 1);
}
