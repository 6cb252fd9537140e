//go:build sarama

package compat

import "github.com/IBM/sarama"

var _ = sarama.V4_0_0_0
