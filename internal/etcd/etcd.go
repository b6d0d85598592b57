package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/statedir"
)

const (
	// Endpoint is the address that clients connect to. The name is never resolved: the
	// dialer of Transport leads into this process.
	Endpoint = "http://embedded-etcd"

	// DefaultQuotaBackendBytes is 8 GiB, the most that etcd recommends. Its own default of
	// 2 GiB is for one cluster; here many spaces share one database.
	DefaultQuotaBackendBytes int64 = 8 << 30
	// MinQuotaBackendBytes is 16 MiB. A new API server needs an eighth of that, and does
	// not become ready without it.
	MinQuotaBackendBytes int64 = 16 << 20
	// MaxQuotaBackendBytes is 1 TiB, a hundred times what etcd recommends. It maps as much
	// memory as the quota says, and a machine has no addresses for far more.
	MaxQuotaBackendBytes int64 = 1 << 40
	// defragThresholdMegabytes is how much a defragmentation at start must free.
	defragThresholdMegabytes = 256
	// catchUpEntries is how much of the raft log stays in memory. It is for
	// followers that lag behind, and there are none.
	catchUpEntries = 100
	// pipeBytes is the buffer of an in-memory connection, in each direction.
	pipeBytes = 64 << 10
)

// Options say where and how etcd runs.
type Options struct {
	// Dir holds the data. It is created if missing and must be used by one process only,
	// which the caller ensures.
	Dir string
	// ListenClientURL, if not empty, is an additional address for etcd clients:
	// http://IP:PORT with a loopback address, or unix:///PATH. There is no authentication on it.
	ListenClientURL string
	// QuotaBackendBytes is the size of the database, in bytes, beyond which etcd only
	// deletes. 0 is DefaultQuotaBackendBytes, less is no quota.
	QuotaBackendBytes int64
	// UnsafeNoFsync trades durability for speed. For tests alone.
	UnsafeNoFsync bool
	// Waiting, if not nil, is told what a start waits for that takes long. By default that is logged.
	Waiting func(message string)
}

// Server is a running etcd.
type Server struct {
	etcd    *embed.Etcd
	grpc    *grpc.Server
	pipe    *bufconn.Listener
	serving atomic.Bool
	failed  chan error
	stop    sync.Once
	quota   int64
	dir     string
	// stopBackground stops the background goroutines.
	stopBackground context.CancelFunc
	background     sync.WaitGroup

	mu     sync.Mutex
	shared *sharedClient // made at the first use
}

// Start runs etcd until Stop and returns when it serves requests.
func Start(ctx context.Context, o Options) (*Server, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	if err := checkData(o.Dir); err != nil {
		return nil, damaged(failure(o.Dir, err))
	}
	s := &Server{failed: make(chan error, 1), quota: config.QuotaBackendBytes, dir: o.Dir}
	// etcd reports fatal errors by ending the process or by a panic in a goroutine of
	// its own. The logger turns both into an error.
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(&s.serving, s.fail))
	started := make(chan error, 1)
	go s.run(config, started)
	select {
	case err = <-started:
		if errors.Is(err, walpb.ErrCRCMismatch) {
			err = damaged(err)
		}
		if err != nil {
			return nil, failure(o.Dir, err)
		}
	case err = <-s.failed:
		return nil, damaged(err)
	}
	if err := s.awaitReady(ctx, o.Waiting); err != nil {
		return nil, err
	}
	s.serving.Store(true)
	s.servePipe(config)
	background, stop := context.WithCancel(context.Background())
	s.stopBackground = stop
	s.background.Go(func() { s.keepSpace(background) })
	return s, nil
}

// silence is how long etcd may take before it is said that it is not ready, and then again. Tests shorten it.
var silence = 10 * time.Second

// patience is how often in a row that is said of a log without its end, before the start fails. Where a few entries are
// missing, etcd itself fills the gap: it writes one in some seconds.
const patience = 6

// awaitReady waits until etcd serves. A member without its last writes, as a disk may have lost them, serves only when
// its log is as long again as it was.
func (s *Server) awaitReady(ctx context.Context, waiting func(string)) error {
	if waiting == nil {
		waiting = func(message string) { klog.InfoS(message) }
	}
	began, said, short := time.Now(), time.NewTicker(silence), 0
	defer said.Stop()
	for {
		select {
		case <-s.etcd.Server.ReadyNotify():
			return nil
		case err := <-s.failed:
			return damaged(err)
		case <-ctx.Done():
			s.etcd.Close()
			return fmt.Errorf("waiting for etcd in %s: %w", s.dir, context.Cause(ctx))
		case <-said.C:
			message := fmt.Sprintf("etcd in %s does not serve after %s: it goes on with its log in %s", s.dir, time.Since(began).Round(time.Second), s.log())
			err := s.checkLog()
			if short++; err == nil {
				short = 0
			} else {
				message += ". " + err.Error()
			}
			if short == patience {
				s.etcd.Close()
				return damaged(failure(s.dir, err))
			}
			waiting(message)
		}
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "member", "wal") }

// checkLog returns an error if the log ends before what is in the database. Before a member leads, it may not have told
// itself yet how much of its log holds.
func (s *Server) checkLog() error {
	applied, _ := schema.ReadConsistentIndex(s.etcd.Server.Backend().ReadTx())
	logged := s.etcd.Server.CommittedIndex()
	if s.etcd.Server.Lead() == 0 || logged >= applied {
		return nil
	}
	return fmt.Errorf("the log in %s ends with entry %d, and the database has entry %d: the end is missing, as after a disk has lost what was written last", s.log(), logged, applied)
}

// run starts etcd. It sends the result to started, unless etcd fails fatally.
func (s *Server) run(config *embed.Config, started chan<- error) {
	defer func() {
		if r := recover(); r != nil {
			s.fail(fmt.Errorf("%v", r))
		}
	}()
	var err error
	s.etcd, err = embed.StartEtcd(config)
	started <- err
}

// damaged adds an explanation to an error at start, unless the disk is full or there is no
// memory.
func damaged(err error) error {
	if statedir.IsFull(err) || errors.Is(err, syscall.ENOMEM) || strings.Contains(err.Error(), syscall.ENOMEM.Error()) {
		return err
	}
	return fmt.Errorf("%w; the data may be damaged: restore a copy of it, or use another directory", err)
}

func (o Options) config() (*embed.Config, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, failure(o.Dir, fmt.Errorf("creating the directory: %w", err))
	}
	c := embed.NewConfig()
	c.Name = "tenantry"
	c.Dir = o.Dir
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ListenPeerUrls = nil
	c.ListenClientUrls = nil
	if o.ListenClientURL != "" {
		u, err := parseListenURL(o.ListenClientURL)
		if err != nil {
			return nil, err
		}
		c.ListenClientUrls = []url.URL{*u}
		if u.Scheme != "unix" { // which etcd does not advertise
			c.AdvertiseClientUrls = c.ListenClientUrls
		}
	}
	c.EnableGRPCGateway = false
	c.QuotaBackendBytes = cmp.Or(o.QuotaBackendBytes, DefaultQuotaBackendBytes)
	c.SnapshotCatchUpEntries = catchUpEntries
	c.BootstrapDefragThresholdMegabytes = defragThresholdMegabytes
	c.UnsafeNoFsync = o.UnsafeNoFsync
	return c, nil
}

func parseListenURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid etcd listen URL: %w", err)
	case u.Scheme == "unix" && u.Path != "":
		return u, nil
	case u.Scheme != "http" || u.Path != "" || net.ParseIP(u.Hostname()) == nil || u.Port() == "":
		return nil, fmt.Errorf("invalid etcd listen URL %q: want http://IP:PORT or unix:///PATH", s)
	case !net.ParseIP(u.Hostname()).IsLoopback():
		return nil, fmt.Errorf("invalid etcd listen URL %q: it asks nobody who they are, so that whoever reaches it has all secrets; want a loopback address, or unix:///PATH", s)
	}
	return u, nil
}

// servePipe serves etcd's API to this process.
func (s *Server) servePipe(config *embed.Config) {
	s.pipe = bufconn.Listen(pipeBytes)
	// Kubernetes' etcd client sends pings more often than gRPC's default allows.
	s.grpc = v3rpc.Server(s.etcd.Server, nil, nil, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
		MinTime: config.GRPCKeepAliveMinTime,
	}))
	go func() {
		if err := s.grpc.Serve(s.pipe); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.fail(fmt.Errorf("serving etcd in process: %w", err))
		}
	}()
}

// fail reports the first failure; later ones follow from it.
func (s *Server) fail(err error) {
	select {
	case s.failed <- failure(s.dir, err):
	default:
	}
}

// Failed delivers an error if etcd cannot go on, for instance because the disk is
// full. Nothing is acknowledged after it, and calls and Stop may never return: exit the
// process.
func (s *Server) Failed() <-chan error { return s.failed }

// Stop ends all connections and closes the data.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.serving.Store(false)
		s.stopBackground()
		s.background.Wait()
		s.mu.Lock()
		if s.shared != nil {
			s.shared.stop()
		}
		s.mu.Unlock()
		s.grpc.Stop()
		s.etcd.Close()
	})
}

// Transport points a storage configuration to this server, for clients that do not use
// Storage, such as health checks.
func (s *Server) Transport(t *storagebackend.TransportConfig) {
	t.ServerList = []string{Endpoint}
	t.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return s.dial, nil
	}
}

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.pipe.DialContext(ctx)
}

// Client returns a client that calls the server's functions without any
// connection. Closing it does not stop the server.
func (s *Server) Client() *clientv3.Client { return v3client.New(s.etcd.Server) }
