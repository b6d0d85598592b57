package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenantry/tenantry/test/harness"
)

// memberPart is the process of a member of etcd.
const memberPart = "MEMBER"

// runMember runs a member with a name, a directory, addresses for clients and members, and all members.
func runMember(ctx context.Context, args []string) error {
	name, dir, client, peer, all := args[0], args[1], args[2], args[3], args[4]
	pki := filepath.Join(filepath.Dir(dir), "pki")
	server, err := harness.Etcd{
		Dir: dir, URL: client, Cert: filepath.Join(pki, "server.crt"), Key: filepath.Join(pki, "server.key"), Clients: filepath.Join(pki, "client-ca.crt"),
		Name: name, PeerURL: peer, Members: all,
	}.Start(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}

// member is one of etcd.
type member struct {
	name, dir, client, peer string
	process                 *exec.Cmd
}

// start runs the member, with what it has stored before.
func (m *member) start(all []*member) error {
	var initial []string
	for _, each := range all {
		initial = append(initial, each.name+"="+each.peer)
	}
	var err error
	if m.process, err = harness.CallSelf(context.Background(), memberPart, m.name, m.dir, m.client, m.peer, strings.Join(initial, ",")); err != nil {
		return err
	}
	m.process.Stderr = os.Stderr
	return m.process.Start()
}

func (m *member) kill() { harness.End(m.process, syscall.SIGKILL) }

// newMembers starts an etcd whose clients have certificates of the authority in dir/pki.
func newMembers(dir string, count int) ([]*member, error) {
	var all []*member
	for i := range count {
		client, err := harness.FreePort()
		if err != nil {
			return nil, err
		}
		peer, err := harness.FreePort()
		if err != nil {
			return nil, err
		}
		m := &member{
			name: fmt.Sprintf("etcd-%d", i), client: fmt.Sprintf("https://%s:%d", loopback, client), peer: fmt.Sprintf("http://%s:%d", loopback, peer),
		}
		m.dir = filepath.Join(dir, m.name)
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for _, m := range all {
		if err := m.start(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// healthy waits until a member answers by itself, and has what the others have.
func (c *cluster) healthy(ctx context.Context, m *member) error {
	tls, err := transport.TLSInfo{CertFile: c.etcd.cert, KeyFile: c.etcd.key, TrustedCAFile: c.etcd.authority}.ClientConfig()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, TLS: tls})
	if err != nil {
		return err
	}
	defer client.Close()
	return harness.Until(ctx, startTimeout, "etcd's "+m.name+" answers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := client.Get(ctx, "health") // linearised, so that it has caught up
		return err
	})
}
