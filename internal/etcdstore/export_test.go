package etcdstore

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Bounder returns what BoundHistory does once in a period.
func Bounder(client *clientv3.Client) func(context.Context) error {
	return (&history{client: client}).bound
}
