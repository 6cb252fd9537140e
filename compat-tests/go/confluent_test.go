//go:build confluent

package compat

import "github.com/confluentinc/confluent-kafka-go/v2/kafka"

var _ = kafka.OffsetEnd
