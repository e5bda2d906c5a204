//! A replica of a replica: what costs nothing, what is told, and that nothing is lost over wires
//! that are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire::client::{Client, Replicas, WhenLost};
use tidewire::memo::{Graph, Memo};
use tidewire::{Code, Error};

use super::Chain;

#[tokio::test]
async fn what_was_read_once_is_read_again_without_a_call() {
    let chain = Chain::new(WhenLost::Wait).await;
    chain.write(7, 41).await;
    assert_eq!(chain.label(7).await, 41);
    let (counts, made, looks) = (chain.counts(), chain.made.count(), chain.rows.looks());
    for _ in 0..100 {
        assert_eq!(chain.label(7).await, 41);
        assert_eq!(chain.c.value(7).await.unwrap(), 41);
    }
    assert_eq!((chain.counts(), chain.made.count()), (counts, made));
    assert_eq!((chain.rows.looks(), chain.c.client.replicas_held()), (looks, 1));
}

#[tokio::test]
async fn a_row_that_is_written_on_a_reaches_what_c_made_of_it_and_no_other_row_does() {
    let chain = Chain::new(WhenLost::Wait).await;
    chain.write(7, 1).await;
    assert_eq!((chain.label(7).await, chain.label(8).await), (1, 0));
    let made = chain.made.count();
    for value in 2..50 {
        let mut told = chain.labels.notify(7);
        chain.write(7, value).await;
        told.next().await.expect("it is told");
        assert_eq!(chain.label(7).await, value);
    }
    let made_of_seven = chain.made.count() - made;
    assert!(made_of_seven >= 48);
    let counts = chain.counts();
    assert!(chain.labels.cached(&8).is_some(), "another row");
    assert_eq!(chain.counts(), counts);
}

/// Writes rows on A while wires are cut; C's newest value of each time is never older than one
/// before, and the last of all comes.
async fn goes_on(chain: &Chain, writes: i64, trouble: impl Fn(i64)) {
    let mut seen = chain.label(7).await;
    let mut watched = chain.labels.watch(7);
    let writing = async {
        for value in 1..=writes {
            trouble(value);
            chain.write(7, value).await;
        }
    };
    let reading = async {
        while seen < writes {
            let label = watched.next().await.expect("the memo is open");
            let Ok(label) = label else { continue };
            let value = label.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(value >= seen, "{value} after {seen}");
            seen = value;
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn every_change_arrives_in_order_and_the_last_one_always() {
    let chain = Chain::new(WhenLost::Wait).await;
    goes_on(&chain, 200, |_| {}).await;
}

#[tokio::test]
async fn no_change_is_lost_over_wires_that_are_cut_and_sessions_that_are_resumed() {
    let chain = Chain::new(WhenLost::Wait).await;
    goes_on(&chain, 60, |value| {
        if value % 10 == 0 {
            chain.wires[usize::from(value % 20 == 0)].cut();
        }
    })
    .await;
    // The last write under a cut, of each wire and of both.
    for (at, cuts) in [&[0][..], &[1], &[0, 1]].into_iter().enumerate() {
        let value = 100 + i64::try_from(at).unwrap();
        assert!(chain.label(7).await < value);
        cuts.iter().for_each(|wire: &usize| chain.wires[*wire].down());
        chain.write(7, value).await;
        cuts.iter().for_each(|wire| chain.wires[*wire].mend());
        while chain.label(7).await != value {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_never_reads_an_older_value_than_it_wrote_over_any_number_of_hops_and_cuts() {
    let chain = Arc::new(Chain::new(WhenLost::Wait).await);
    let done = Arc::new(AtomicBool::new(false));
    // Others read all the while, so that runs are under way when writes come.
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (chain, done) = (Arc::clone(&chain), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    let _ = chain.labels.get(7).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for value in 1..=100 {
        chain.c.set(7, value).await;
        if value % 25 == 0 {
            chain.wires[usize::from(value % 50 == 0)].cut();
        }
        let (label, replica) = (chain.label(7).await, chain.c.value(7).await.unwrap());
        assert!(label >= value, "a label of {label} after {value} was written");
        assert!(replica >= value, "a row of {replica} after {value} was written");
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn what_is_made_of_an_error_is_not_kept_since_nobody_tells_when_it_ends() {
    let chain = Chain::new(WhenLost::Wait).await;
    let read = chain.c.clone();
    let found = Memo::new_in(&chain.graph, "found", move |id: i64| {
        let read = read.clone();
        async move {
            match read.value(id).await {
                Err(error) if error.code() == Code::NotFound => Ok(false),
                Err(error) => Err(error),
                Ok(_) => Ok::<_, Error>(true),
            }
        }
    });
    assert!(!*found.get(100).await.unwrap());
    assert!(found.cached(&100).is_none(), "it is looked for again");
    assert!(*found.get(7).await.unwrap());
    assert!(found.cached(&7).is_some());
}

#[tokio::test]
async fn replicas_over_a_protocol_that_tells_nothing_are_refused_with_what_would_do() {
    let replicas = Replicas::new(&Graph::new());
    let error = Client::builder("http://127.0.0.1:1").replicas(replicas).build().unwrap_err();
    assert!(error.to_string().contains("use a ws or tcp URL"), "{error}");
}
