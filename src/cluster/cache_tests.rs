use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::cluster::fake::{FakeApi, Fault};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// What the listener was told: `name old -> new`, by the value of `data.v`; `?` for one that went
/// without its deletion being seen.
type Told = Arc<Mutex<Vec<String>>>;

fn value(map: Option<&ConfigMap>) -> String {
    let data = map.and_then(|map| map.data.as_ref());
    data.and_then(|data| data.get("v").cloned()).unwrap_or_else(|| "-".to_owned())
}

struct Notes(Told);

impl Listener<ConfigMap> for Notes {
    fn changed(&self, change: &Change<'_, ConfigMap>) {
        let mut line =
            format!("{} {} -> {}", change.key.name, value(change.old), value(change.new));
        if !change.witnessed {
            line.push('?');
        }
        self.0.lock().unwrap().push(line);
    }

    fn unreadable(&self, key: &ObjectKey, _: &str) {
        self.0.lock().unwrap().push(format!("{} unreadable", key.name));
    }

    fn watch_failed(&self, _: &str) {
        self.0.lock().unwrap().push("watch failed".to_owned());
    }
}

fn cache() -> (Cache<ConfigMap>, Told) {
    let told = Told::default();
    let index = |map: &ConfigMap| map.data.as_ref()?.get("group").cloned();
    (Cache::new(index, Notes(Arc::clone(&told))), told)
}

fn map(name: &str, version: u64, v: &str, group: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": version.to_string()},
        "data": {"v": v, "group": group},
    }))
    .unwrap()
}

fn content(name: &str, v: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "managedFields": [{"manager": "kubectl"}]},
        "data": {"v": v, "group": "g"},
    })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn told(told: &Told) -> Vec<String> {
    std::mem::take(&mut told.lock().unwrap())
}

fn start(fake: &FakeApi, cache: &Cache<ConfigMap>) -> tokio::task::JoinHandle<()> {
    let (clients, cache) = (Clients::single(fake.client()), cache.clone());
    tokio::spawn(async move { cache.run(&clients, &Scope::default()).await })
}

/// Lets everything happen that can.
async fn settle() {
    sleep(Duration::from_millis(5)).await;
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let (cache, notes) = cache();
    cache.observe(map("a", 9, "nine", "g"));
    cache.observe(map("a", 10, "ten", "g"));
    cache.observe(map("a", 9, "nine", "g"));
    cache.observe(map("a", 10, "ten again", "g"));
    assert_eq!(value(cache.get(&key("a")).as_deref()), "ten");
    assert_eq!(told(&notes), ["a - -> nine", "a nine -> ten"]);
}

#[test]
fn what_is_deleted_does_not_come_back_by_a_late_answer() {
    let (cache, notes) = cache();
    cache.observe(map("a", 9, "nine", "g"));
    cache.remove(&key("a"), 12, true);
    cache.observe(map("a", 11, "late", "g"));
    assert_eq!(cache.lookup(&key("a")), Lookup::Absent);
    cache.observe(map("a", 13, "made again", "g"));
    assert_eq!(value(cache.get(&key("a")).as_deref()), "made again");
    cache.remove(&key("a"), 12, true);
    assert_eq!(cache.len(), 1, "an old deletion does not remove the new one");
    assert_eq!(told(&notes), ["a - -> nine", "a nine -> -", "a - -> made again"]);
}

#[test]
fn tombstones_are_bounded() {
    let (cache, _) = cache();
    for at in 0..MAX_TOMBSTONES + 10 {
        cache.remove(&key(&at.to_string()), 5, true);
    }
    let state = cache.lock();
    assert_eq!(state.tombstones.len(), MAX_TOMBSTONES);
    assert_eq!(state.tombstone_order.len(), MAX_TOMBSTONES);
}

#[test]
fn the_index_follows_the_objects() {
    let (cache, _) = cache();
    let names = |group: &str| {
        let maps = cache.by_index(group).into_iter();
        maps.map(|map| map.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    cache.observe(map("b", 1, "", "red"));
    cache.observe(map("a", 2, "", "red"));
    assert_eq!(names("red"), ["a", "b"]);
    cache.observe(map("a", 3, "", "blue"));
    assert_eq!((names("red"), names("blue")), (vec!["b".to_owned()], vec!["a".to_owned()]));
    cache.remove(&key("b"), 4, true);
    assert!(names("red").is_empty());
    assert_eq!(cache.lock().index.len(), 1, "empty entries go");
}

#[tokio::test(start_paused = true)]
async fn the_watch_fills_and_follows() {
    let fake = FakeApi::new();
    fake.put(MAPS, content("a", "1"));
    let (cache, notes) = cache();
    assert!(!cache.is_ready());
    let _task = start(&fake, &cache);
    cache.wait_ready().await;
    let found = cache.get(&key("a")).unwrap();
    assert_eq!(found.metadata.managed_fields, None);
    fake.edit(&format!("{MAPS}/a"), |map| map["data"]["v"] = json!("2"));
    fake.put(MAPS, content("b", "1"));
    settle().await;
    fake.remove(&format!("{MAPS}/a"));
    settle().await;
    assert_eq!(told(&notes), ["a - -> 1", "a 1 -> 2", "b - -> 1", "a 2 -> -"]);
    assert_eq!(cache.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages() {
    let fake = FakeApi::new();
    for at in 0..reader::PAGE_SIZE + 7 {
        fake.put(MAPS, content(&format!("m{at}"), "1"));
    }
    let (cache, _) = cache();
    let _task = start(&fake, &cache);
    cache.wait_ready().await;
    assert_eq!(cache.len(), reader::PAGE_SIZE as usize + 7);
    let lists = fake.log().into_iter().filter(|entry| entry.query.contains("limit="));
    assert_eq!(lists.count(), 2);
    let all = Clients::single(fake.client()).reader().list::<ConfigMap>(None, None).await.unwrap();
    assert_eq!(all.items.len(), cache.len());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_reported_and_stops_nobody() {
    let fake = FakeApi::new();
    let mut bad = content("bad", "1");
    bad["data"] = json!("not a map");
    fake.put(MAPS, bad.clone());
    fake.put(MAPS, content("good", "1"));
    let (cache, notes) = cache();
    let _task = start(&fake, &cache);
    cache.wait_ready().await;
    assert!(matches!(cache.lookup(&key("bad")), Lookup::Unreadable(_)));
    assert!(cache.get(&key("good")).is_some());
    assert_eq!(told(&notes), ["bad unreadable", "bad - -> -?", "good - -> 1"]);
    fake.edit(&format!("{MAPS}/good"), |map| map["data"] = json!(7));
    fake.edit(&format!("{MAPS}/bad"), |map| map["data"] = json!({"v": "mended"}));
    settle().await;
    assert_eq!(told(&notes), ["good unreadable", "good 1 -> -?", "bad - -> mended"]);
    assert_eq!(cache.by_index("g").len(), 0, "what cannot be read is in no index");
    let listed =
        Clients::single(fake.client()).reader().list::<ConfigMap>(None, None).await.unwrap();
    assert_eq!((listed.items.len(), listed.unreadable.len()), (1, 1));
    assert_eq!(listed.unreadable[0].key, key("good"));
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_taken_up_again_and_a_list_removes_what_is_gone() {
    let fake = FakeApi::new();
    fake.put(MAPS, content("a", "1"));
    fake.put(MAPS, content("b", "1"));
    let (cache, notes) = cache();
    let _task = start(&fake, &cache);
    cache.wait_ready().await;
    fake.remove(&format!("{MAPS}/a"));
    fake.compact(); // the watch is told that its version is gone
    for _ in 0..3 {
        fake.fault(Method::GET, "configmaps", Fault::Refuse(500, "InternalError"));
    }
    sleep(Duration::from_secs(5)).await;
    let (failures, changes): (Vec<String>, Vec<String>) =
        told(&notes).into_iter().partition(|line| line == "watch failed");
    assert_eq!(changes, ["a - -> 1", "b - -> 1", "a 1 -> -?"]);
    assert_eq!(failures.len(), 4, "gone, then three failed lists");
    assert_eq!(cache.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_survives_a_list_that_is_older_than_it() {
    let fake = FakeApi::new();
    let (cache, _) = cache();
    // The list is under way: nothing shown yet. Two own writes come in; one of the objects exists,
    // the other one has been deleted since.
    let there: ConfigMap = serde_json::from_value(fake.put(MAPS, content("there", "1"))).unwrap();
    let client = fake.client();
    cache.take(&client, Event::Init, None).await;
    cache.observe(there);
    cache.observe(map("gone", 5, "1", "g"));
    fake.fault(Method::GET, "configmaps", Fault::LoseRequest);
    cache.take(&client, Event::InitDone, None).await;
    assert!(cache.get(&key("there")).is_some());
    assert_eq!(cache.lookup(&key("gone")), Lookup::Absent);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_namespace_says_nothing_of_another() {
    const OTHER: &str = "/api/v1/namespaces/docs/configmaps";
    let fake = FakeApi::new();
    fake.put(MAPS, content("a", "1"));
    fake.put(OTHER, content("a", "1"));
    fake.put("/api/v1/namespaces/not-ours/configmaps", content("a", "1"));
    let (cache, _) = cache();
    let scope = Scope { namespaces: ["shop", "docs"].map(String::from).into(), labels: None };
    let (clients, follower) = (Clients::single(fake.client()), cache.clone());
    let _task = tokio::spawn(async move { follower.run(&clients, &scope).await });
    cache.wait_ready().await;
    assert_eq!(cache.len(), 2, "ready means that both are listed, and nothing else is");
    fake.compact(); // both are listed again
    fake.remove(&format!("{OTHER}/a"));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(cache.len(), 1);
    assert!(cache.get(&key("a")).is_some());
}
