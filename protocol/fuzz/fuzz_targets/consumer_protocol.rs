//! Any bytes: what consumers tell each other is read without a panic, and written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::consumer_protocol::{Assignment, Subscription};

fuzz_target!(|data: &[u8]| {
    if let Ok(subscription) = Subscription::decode(data) {
        let again = Subscription::decode(&subscription.encode()).expect("our own bytes");
        assert_eq!(again, subscription);
    }
    if let Ok(assignment) = Assignment::decode(data) {
        let again = Assignment::decode(&assignment.encode()).expect("our own bytes");
        assert_eq!(again, assignment);
    }
});
