//! Panics of what the function gives, and of what it panics with.

use tidewire_loader::Loader;

/// A number; the clone of an odd one panics.
#[derive(Debug, PartialEq)]
struct Value(u32);

impl Clone for Value {
    fn clone(&self) -> Self {
        assert!(self.0.is_multiple_of(2), "odd");
        Self(self.0)
    }
}

#[tokio::test]
async fn a_value_whose_clone_panics_spoils_no_other_load_of_the_batch() {
    let loader = Loader::new(10, async |keys: Vec<u32>| {
        Ok::<_, String>(keys.into_iter().map(|key| (key, Value(key))))
    });
    let tasks = [1, 1, 2, 2, 3].map(|key| {
        let loader = loader.clone();
        tokio::spawn(async move { loader.load(key).await })
    });
    let mut loaded = Vec::new();
    for task in tasks {
        loaded.push(task.await.ok().map(|value| value.unwrap().unwrap().0));
    }
    // A value is cloned for all but the last that wait for it.
    assert_eq!(loaded, [None, Some(1), Some(2), Some(2), Some(3)]);
}

/// Panics when it is dropped, unless that would end the program.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a second panic");
    }
}

#[tokio::test]
async fn a_panic_whose_payload_panics_is_still_one_of_the_function() {
    let loader: Loader<u32, u32, String> = Loader::new(10, async |keys: Vec<u32>| {
        if keys.contains(&13) {
            std::panic::panic_any(Grenade);
        }
        Ok(keys.into_iter().map(|key| (key, key)))
    })
    .batches_max(1);
    let bad = loader.clone();
    let panic = tokio::spawn(async move { bad.load(13).await }).await.unwrap_err().into_panic();
    let said = panic.downcast_ref::<String>().unwrap();
    assert_eq!(said, "the function of a loader panicked: no text");
    assert_eq!(loader.load(1).await, Ok(Some(1)), "its turn is free again");
}
