//! The limit: a receiver that takes the same requests from the same client over the same loopback,
//! appends their bytes to one file, and says yes. No broker can be faster than that.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{BufMut, BytesMut};
use compat_tests::requests::{PRODUCE_VERSION, topic_name};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceResponse, ResponseHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use crate::race::Durability;
use crate::results::{Better, Key, Results};
use crate::{Settings, ballast, plan};

/// What is measured: the shapes in which only the size of the batches differs.
const NAMES: [&str; 2] = ["16 KB batches", "1 MB batches"];

/// Measures it once.
pub fn measure(settings: &Settings, results: &mut Results) -> Result<(), String> {
    let plan = plan::of(settings, Durability::Os);
    for (name, shape) in plan.loads.iter().filter(|(name, _)| NAMES.contains(&name.as_str())) {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let file = tempfile::tempfile().map_err(|error| error.to_string())?;
        let connections = shape.producers;
        let server = thread::spawn(move || serve(&listener, file, connections));
        let mut load = shape.load(address, "limit");
        ballast::make_room(ballast::ROOM_GIBIBYTES);
        let sent = load.run(settings.each).map_err(|error| error.to_string())?;
        drop(load);
        server.join().map_err(|_| "the receiver failed")?.map_err(|error| error.to_string())?;
        let megabytes = (sent.requests * shape.payload_bytes()) as f64 / 1e6;
        let rate = megabytes / sent.elapsed.as_secs_f64();
        results.add_limit(Key::new("produce", name, "MB/s", Better::More), rate);
    }
    Ok(())
}

fn serve(listener: &TcpListener, file: File, connections: usize) -> io::Result<()> {
    let file = Arc::new(Mutex::new(file));
    let mut receivers = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept()?;
        let file = file.clone();
        receivers.push(thread::spawn(move || receive(stream, &file)));
    }
    for receiver in receivers {
        receiver.join().map_err(|_| io::Error::other("a receiver failed"))??;
    }
    Ok(())
}

/// Takes requests until the client closes the connection.
fn receive(mut stream: TcpStream, file: &Mutex<File>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answer = answer()?;
    let mut frame = Vec::new();
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return Ok(());
        }
        frame.resize(usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?, 0);
        stream.read_exact(&mut frame)?;
        file.lock().map_err(|_| io::Error::other("a receiver failed"))?.write_all(&frame)?;
        // The correlation id stands behind key and version, and behind the answer's length.
        answer[4..8].copy_from_slice(&frame[4..8]);
        stream.write_all(&answer)?;
    }
}

fn answer() -> io::Result<Vec<u8>> {
    let topic = TopicProduceResponse::default()
        .with_name(topic_name("limit"))
        .with_partition_responses(vec![PartitionProduceResponse::default()]);
    let response = ProduceResponse::default().with_responses(vec![topic]);
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    ResponseHeader::default()
        .encode(&mut frame, ProduceResponse::header_version(PRODUCE_VERSION))
        .map_err(io::Error::other)?;
    response.encode(&mut frame, PRODUCE_VERSION).map_err(io::Error::other)?;
    let length = i32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame.to_vec())
}
