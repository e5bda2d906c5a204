//! Random programs: callers that come, wait and give up while rows change and calls fail. Each load
//! is compared with the table as it was when the load began.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidewire_loader::Loader;
use tokio::time::{sleep, timeout};

const PROGRAMS: u64 = 300;

#[test]
fn no_load_is_lost_or_older_than_itself_whatever_its_neighbours_do() {
    let (mut answered, mut given_up) = (0, 0);
    for seed in 1..=PROGRAMS {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let ends = runtime.block_on(program(seed));
        answered += ends.iter().filter(|end| **end == End::Answered).count();
        given_up += ends.iter().filter(|end| **end == End::GivenUp).count();
    }
    assert!(answered > 1_000 && given_up > 1_000, "{answered} answered, {given_up} given up");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Answered,
    Panicked,
    GivenUp,
}

/// The table, who waits for what, and which calls there are.
#[derive(Default)]
struct World {
    version: u64,
    rows: HashMap<u64, u64>,
    wanted: HashMap<u64, usize>,
    calls: usize,
    calls_most: usize,
}

type Shared = Arc<Mutex<World>>;

/// Counts a call for as long as it is there.
struct Call(Shared);

impl Call {
    fn begin(world: &Shared) -> Self {
        let mut now = world.lock().unwrap();
        now.calls += 1;
        now.calls_most = now.calls_most.max(now.calls);
        Self(Arc::clone(world))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.lock().unwrap().calls -= 1;
    }
}

/// Wants keys for as long as it is there.
struct Wish(Shared, Vec<u64>);

impl Wish {
    fn of(world: &Shared, keys: &[u64]) -> Self {
        for key in keys {
            *world.lock().unwrap().wanted.entry(*key).or_default() += 1;
        }
        Self(Arc::clone(world), keys.to_vec())
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        for key in &self.1 {
            *self.0.lock().unwrap().wanted.get_mut(key).unwrap() -= 1;
        }
    }
}

/// An error of the key, whatever the table has.
fn is_bad(key: u64) -> bool {
    key % 7 == 3
}

fn loader(world: &Shared, keys_max: usize, seed: u64) -> Loader<u64, u64, String> {
    let random = Mutex::new(Random(seed));
    let world = Arc::clone(world);
    Loader::with_errors(keys_max, move |keys: Vec<u64>| {
        assert!(!keys.is_empty() && keys.len() <= keys_max, "seed {seed}: {keys:?}");
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert!(sorted.is_sorted_by(|a, b| a < b), "seed {seed}: a key twice: {keys:?}");
        for key in &keys {
            assert!(world.lock().unwrap().wanted[key] > 0, "seed {seed}: nobody wants {key}");
        }
        let call = Call::begin(&world);
        let (how, before, after) = {
            let mut random = random.lock().unwrap();
            (random.below(20), random.millis(5), random.millis(5))
        };
        async move {
            sleep(before).await; // tidy: allow-sleep the clock is virtual
            match how {
                0 => std::panic::resume_unwind(Box::new("a call panics")),
                1 => return Err("a call fails".to_owned()),
                2 => std::future::pending().await,
                _ => {}
            }
            let found: Vec<_> = {
                let table = &call.0.lock().unwrap().rows;
                let find = |key: u64| match is_bad(key) {
                    true => Some((key, Err(format!("key {key}")))),
                    false => Some((key, Ok(*table.get(&key)?))),
                };
                keys.into_iter().filter_map(find).chain([(1_000_000, Ok(0))]).collect()
            };
            sleep(after).await; // tidy: allow-sleep the clock is virtual
            Ok(found)
        }
    })
}

async fn program(seed: u64) -> Vec<End> {
    let mut random = Random(seed);
    let keys_max = random.one_of([1, 2, 3, 7, 1_000]);
    let batches_max = random.one_of([1, 2, 5, usize::MAX]);
    let keys = random.one_of([2, 10, 50]);
    let world = Shared::default();
    let loader = loader(&world, keys_max, seed).batches_max(batches_max);
    let mut tasks = Vec::new();
    for _ in 0..20 + random.below(60) {
        if random.below(4) == 0 {
            let mut now = world.lock().unwrap();
            now.version += 1;
            let (key, version) = (random.below(keys), now.version);
            match random.below(5) {
                0 => now.rows.remove(&key),
                _ => now.rows.insert(key, version),
            };
        }
        let wanted: Vec<_> = (0..random.one_of([1, 1, 1, 8])).map(|_| random.below(keys)).collect();
        let comes_after = random.millis(3);
        let patience = random.one_of([1, 3, 8, 2_000, 2_000]);
        let load = load(Arc::clone(&world), loader.clone(), wanted, seed);
        let task = tokio::spawn(async move {
            sleep(comes_after).await; // tidy: allow-sleep the clock is virtual
            timeout(Duration::from_millis(patience), load).await.unwrap_or(End::GivenUp)
        });
        if random.below(10) == 0 {
            task.abort();
        }
        tasks.push(task);
        if random.below(3) == 0 {
            sleep(random.millis(6)).await; // tidy: allow-sleep the clock is virtual
        }
    }
    let mut ends = Vec::new();
    for task in tasks {
        match task.await {
            Ok(end) => ends.push(end),
            Err(error) => assert!(error.is_cancelled(), "seed {seed}: {error}"),
        }
    }
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    let world = world.lock().unwrap();
    assert_eq!(world.calls, 0, "seed {seed}: a call goes on for nobody");
    assert!(world.calls_most <= batches_max, "seed {seed}: {} calls at once", world.calls_most);
    ends
}

/// Loads keys and compares what comes with what the table had before.
async fn load(world: Shared, loader: Loader<u64, u64, String>, keys: Vec<u64>, seed: u64) -> End {
    let wish = Wish::of(&world, &keys);
    let (before, version) = {
        let now = world.lock().unwrap();
        (now.rows.clone(), now.version)
    };
    let loaded = async {
        let [key] = *keys else { return loader.load_many(keys.clone()).await };
        Ok(loader.load(key).await?.map(|row| (key, row)).into_iter().collect())
    };
    let Ok(loaded) = AssertUnwindSafe(loaded).catch_unwind().await.map_err(|panic| {
        let said = panic.downcast_ref::<String>().unwrap();
        assert_eq!(said, "the function of a loader panicked: a call panics", "seed {seed}");
    }) else {
        return End::Panicked;
    };
    drop(wish);
    match loaded {
        Err(error) => {
            let of_a_key = keys.iter().any(|key| is_bad(*key) && error == format!("key {key}"));
            assert!(of_a_key || error == "a call fails", "seed {seed}: {error} for {keys:?}");
        }
        Ok(rows) => {
            assert!(
                rows.keys().all(|key| keys.contains(key)),
                "seed {seed}: not asked for: {rows:?}"
            );
            for key in keys {
                assert!(!is_bad(key), "seed {seed}: no error of {key}");
                let (was, now) = (before.get(&key), rows.get(&key));
                // As it was, or removed or written in the meantime.
                let is_as_new = now == was || now.is_none_or(|row| *row > version);
                assert!(
                    is_as_new,
                    "seed {seed}: row {key} is {now:?}; it was {was:?} at {version}"
                );
            }
        }
    }
    End::Answered
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::try_from(self.below(N as u64)).unwrap()]
    }
}
