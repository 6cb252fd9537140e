//! DescribeCluster: the brokers, the controller and the cluster's id (KIP-700).

use std::sync::Arc;

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{ApiKey, DescribeClusterRequest, DescribeClusterResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::nodes::{controller, nodes};
use super::common::operations;
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: controllers can be asked for as well, at a controller (KIP-919)
/// - 2: fenced brokers can be listed (KIP-1073)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::DescribeCluster, 0..=2);

/// What a broker's listener answers for.
const BROKERS: i8 = 1;
/// What a controller's listener would answer for.
const CONTROLLERS: i8 = 2;

/// Answers.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: DescribeClusterRequest,
) -> Reply {
    if request.endpoint_type != BROKERS && context.api_version > 0 {
        let (code, message) = match request.endpoint_type {
            CONTROLLERS => (ErrorCode::MismatchedEndpointType, "This is no controller's listener."),
            _ => (ErrorCode::UnsupportedEndpointType, "There are no endpoints of that type."),
        };
        return reply(
            DescribeClusterResponse::default()
                .with_error_code(code.code())
                .with_error_message(Some(text(message))),
        );
    }
    let image = services.cluster.metadata();
    let nodes = nodes(services, context, &image);
    let brokers = nodes.iter().map(|node| {
        DescribeClusterBroker::default()
            .with_broker_id(node.wire_id())
            .with_host(node.wire_host())
            .with_port(i32::from(node.port))
            .with_rack(node.wire_rack())
    });
    let asked = request.include_cluster_authorized_operations;
    reply(
        DescribeClusterResponse::default()
            .with_cluster_id(text(&image.cluster_id))
            .with_controller_id(controller(services, &nodes))
            .with_brokers(brokers.collect())
            .with_cluster_authorized_operations(operations::on_cluster(asked)),
    )
}
