package replicas

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// externalEtcd is an etcd that asks its clients for certificates.
type externalEtcd struct {
	*clientv3.Client
	address string
	// flags are those by which a server reaches it.
	flags []string
}

func startEtcd(ctx context.Context, dir string) *externalEtcd {
	GinkgoHelper()
	address := "https://" + loopback + ":" + sessions.FreePort()
	serving, servingKey := keys.Serving()
	server, err := harness.Etcd{Dir: dir, URL: address, Cert: serving, Key: servingKey, Clients: keys.ClientCA.File, UnsafeNoFsync: true}.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)

	cert, key, err := keys.ClientCertificate(0, tenant.System, "etcd-client")
	Expect(err).NotTo(HaveOccurred())
	info := transport.TLSInfo{
		CertFile:      writeFile(filepath.Join(dir, "etcd-client.crt"), cert),
		KeyFile:       writeFile(filepath.Join(dir, "etcd-client.key"), key),
		TrustedCAFile: keys.ServerCA.File,
	}
	tls, err := info.ClientConfig()
	Expect(err).NotTo(HaveOccurred())
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, TLS: tls})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return &externalEtcd{Client: client, address: address, flags: []string{
		"--etcd-servers=" + address, "--etcd-cafile=" + info.TrustedCAFile,
		"--etcd-certfile=" + info.CertFile, "--etcd-keyfile=" + info.KeyFile,
	}}
}

// stored returns all that etcd holds below a prefix.
func (e *externalEtcd) stored(ctx context.Context, prefix string) map[string][]byte {
	GinkgoHelper()
	response, err := e.Get(ctx, prefix, clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	stored := make(map[string][]byte, len(response.Kvs))
	for _, kv := range response.Kvs {
		stored[string(kv.Key)] = kv.Value
	}
	return stored
}
