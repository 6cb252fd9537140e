//! Fetched record bytes as a tree: the fields of every batch's header, and its records as they
//! are, so that two brokers' batches can be compared although their leader epochs differ. What is
//! left behind the last whole batch is left out: Kafka cuts a batch where the limit is, and clients
//! throw such an end away.

use bytes::Bytes;
use compat_tests::batches::split;

use crate::tree::Node;

/// The attribute of a batch that bears the broker's time.
const LOG_APPEND_TIME: u8 = 8;

/// The batches in fetched bytes.
pub fn tree(bytes: &[u8]) -> Node {
    let bytes = Bytes::copy_from_slice(bytes);
    let batches = split(Some(&bytes));
    let mut at = 0;
    let mut nodes = Vec::new();
    for batch in &batches {
        nodes.push(header(&bytes[at..at + batch.size_in_bytes()]));
        at += batch.size_in_bytes();
    }
    Node::List(nodes)
}

fn header(batch: &[u8]) -> Node {
    let i16_at = |at: usize| Node::word(i16::from_be_bytes([batch[at], batch[at + 1]]));
    let i32_at = |at: usize| {
        let bytes = [batch[at], batch[at + 1], batch[at + 2], batch[at + 3]];
        Node::word(i32::from_be_bytes(bytes))
    };
    let i64_at = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&batch[at..at + 8]);
        Node::word(i64::from_be_bytes(bytes))
    };
    let crc = u32::from_be_bytes([batch[17], batch[18], batch[19], batch[20]]);
    let of_broker = batch[22] & LOG_APPEND_TIME != 0;
    let fields = [
        ("base_offset", i64_at(0)),
        ("batch_length", i32_at(8)),
        ("leader_epoch", i32_at(12)),
        ("magic", Node::word(batch[16])),
        // The CRC covers the producer id and the broker's time: whether it is right counts.
        ("crc_is_right", Node::word(crc32c::crc32c(&batch[21..]) == crc)),
        ("attributes", i16_at(21)),
        ("last_offset_delta", i32_at(23)),
        ("base_timestamp", i64_at(27)),
        ("max_timestamp", if of_broker { Node::word("time-of-append") } else { i64_at(35) }),
        ("producer_id", i64_at(43)),
        ("producer_epoch", i16_at(51)),
        ("base_sequence", i32_at(53)),
        ("record_count", i32_at(57)),
        ("body", Node::Bytes(batch[61..].to_vec())),
    ];
    Node::Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use compat_tests::batches::of_producer;

    #[test]
    fn the_fields_of_a_header_are_where_kafka_has_them() {
        let bytes = of_producer(17, 3, 9, &["a", "b"]);
        let Node::List(batches) = tree(&bytes) else { panic!("batches are a list") };
        let number = |name: &str| batches[0].field(name).and_then(Node::number);
        assert_eq!(number("magic"), Some(2));
        assert_eq!(number("producer_id"), Some(17));
        assert_eq!(number("producer_epoch"), Some(3));
        assert_eq!(number("base_sequence"), Some(9));
        assert_eq!(number("record_count"), Some(2));
    }

    #[test]
    fn a_cut_off_batch_is_left_out() {
        let bytes = of_producer(17, 3, 9, &["a"]);
        assert_eq!(tree(&bytes[..bytes.len() - 1]), Node::List(Vec::new()));
    }
}
