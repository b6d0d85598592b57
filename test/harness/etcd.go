package harness

import (
	"context"
	"fmt"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
)

// Etcd is an etcd, or one member of it, that asks its clients for certificates.
type Etcd struct {
	// Dir is for its data and its log.
	Dir string
	// URL is where clients find it.
	URL string
	// Cert and Key are the files of its certificate, and Clients that of the authority of its clients.
	Cert, Key, Clients string
	// UnsafeNoFsync makes it forget what it has acknowledged when the machine ends.
	UnsafeNoFsync bool

	// Name, PeerURL and Members are of one of several: Members has a NAME=URL of each.
	Name, PeerURL, Members string
}

// Start runs it, with what was stored before, and returns when it is ready.
func (e Etcd) Start(ctx context.Context) (*embed.Etcd, error) {
	config := embed.NewConfig()
	config.Dir = filepath.Join(e.Dir, "data")
	config.LogLevel, config.LogOutputs = "error", []string{filepath.Join(e.Dir, "log")}
	config.EnableGRPCGateway = false
	config.UnsafeNoFsync = e.UnsafeNoFsync
	client, err := types.NewURLs([]string{e.URL})
	if err != nil {
		return nil, err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls, config.ListenPeerUrls = client, client, nil
	if e.PeerURL != "" {
		peer, err := types.NewURLs([]string{e.PeerURL})
		if err != nil {
			return nil, err
		}
		config.Name, config.InitialCluster = e.Name, e.Members
		config.ListenPeerUrls, config.AdvertisePeerUrls = peer, peer
	}
	config.ClientTLSInfo = transport.TLSInfo{CertFile: e.Cert, KeyFile: e.Key, TrustedCAFile: e.Clients, ClientCertAuth: true}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err = <-server.Err():
	case <-ctx.Done():
		err = fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
	server.Close()
	return nil, err
}
