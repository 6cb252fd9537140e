//go:build segmentio

package compat

import "github.com/segmentio/kafka-go"

var _ = kafka.LastOffset
