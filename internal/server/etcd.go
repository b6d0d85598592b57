package server

import (
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// etcdClients connect to each etcd once, when first needed. Resources may be
// stored in different ones (--etcd-servers-overrides).
type etcdClients struct {
	// embedded, if set, is the only etcd.
	embedded func() *clientv3.Client

	mu   sync.Mutex
	made map[string]*clientv3.Client
}

func (c *etcdClients) connect(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	servers := strings.Join(config.ServerList, ",")
	if client, ok := c.made[servers]; ok {
		return client, nil
	}
	client, err := c.open(config)
	if err != nil {
		return nil, err
	}
	if c.made == nil {
		c.made = make(map[string]*clientv3.Client)
	}
	c.made[servers] = client
	return client, nil
}

func (c *etcdClients) open(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	if c.embedded != nil {
		return c.embedded(), nil
	}
	etcd := clientv3.Config{Endpoints: config.ServerList}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		tls, err := transport.TLSInfo{
			CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile,
		}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("reading etcd credentials: %w", err)
		}
		etcd.TLS = tls
	}
	return clientv3.New(etcd)
}
