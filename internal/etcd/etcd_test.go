package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.UnsafeNoFsync = true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// connect returns a client that connects as the API server does.
func connect(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	var transport storagebackend.TransportConfig
	s.Transport(&transport)
	dial, err := transport.EgressLookup(egressselector.Etcd.AsNetworkContext())
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: transport.ServerList,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // again, if the test has closed it
	return client
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	resp, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != value {
		t.Errorf("%s: got %v, want %q", key, resp.Kvs, value)
	}
}

func TestServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	s := start(t, Options{Dir: dir})
	client := connect(t, s)
	watch := client.Watch(t.Context(), "/a")
	put(t, client, "/a", "1")
	wantValue(t, s.Client(), "/a", "1")
	if event := <-watch; len(event.Events) != 1 || string(event.Events[0].Kv.Value) != "1" {
		t.Errorf("watch: %+v", event)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	// Restarts keep the data, whether told to listen elsewhere or not.
	s.Stop()
	socket := filepath.Join(t.TempDir(), "s")
	s = start(t, Options{Dir: dir, ListenClientURL: "unix://" + socket})
	wantValue(t, connect(t, s), "/a", "1")
	outside, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	wantValue(t, outside, "/a", "1")
}

// Reads do not wait for writes under way, and see all that were answered.
func TestLocalReads(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir()})
	kv := s.sharedClient(0).kv
	var writers errgroup.Group
	for writer := range 8 {
		key := fmt.Sprintf("/writers/%d", writer)
		writers.Go(func() error {
			for round := range 200 {
				written, err := kv.Put(t.Context(), key, strconv.Itoa(round))
				if err != nil {
					return err
				}
				read, err := kv.Get(t.Context(), key)
				if err != nil {
					return err
				}
				if read.Header.Revision < written.Header.Revision || string(read.Kvs[0].Value) != strconv.Itoa(round) {
					return fmt.Errorf("%s is %s at revision %d, after %d had been written at %d",
						key, read.Kvs[0].Value, read.Header.Revision, round, written.Header.Revision)
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct {
		url, want string
	}{
		"no URL":     {"127.0.0.1:2379", "invalid etcd listen URL"},
		"host name":  {"http://localhost:2379", "want http://IP:PORT"},
		"no port":    {"http://127.0.0.1", "want http://IP:PORT"},
		"everywhere": {"http://0.0.0.0:2379", "want a loopback address"},
		"outside":    {"http://192.0.2.1:2379", "want a loopback address"},
		"https":      {"https://127.0.0.1:2379", "want http://IP:PORT"},
		"taken port": {"http://" + taken.Addr().String(), "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Options{Dir: t.TempDir(), ListenClientURL: tc.url})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want one line with %q", err, tc.want)
			}
		})
	}
}

func TestStartUnusableDirectory(t *testing.T) {
	template := t.TempDir()
	s := start(t, Options{Dir: template})
	put(t, s.Client(), "/a", strings.Repeat("x", 1<<16))
	s.Stop()
	for name, breakIt := range map[string]func(dir string) error{
		"directory is a file": func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		},
		"database is junk": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "member/snap/db"), []byte(strings.Repeat("junk", 1<<12)), 0o600)
		},
		"database is cut off": func(dir string) error {
			return os.Truncate(filepath.Join(dir, "member/snap/db"), 1<<12)
		},
		"pages are junk": func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "member/snap/db"), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			const page = 4096 // the first two are the header
			_, err = f.WriteAt([]byte(strings.Repeat("junk", int(info.Size()-2*page)/4)), 2*page)
			return err
		},
		"log is lost": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member/wal")) },
		"log is changed": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
			if err != nil || len(logs) == 0 {
				return err
			}
			content, err := os.ReadFile(logs[0])
			if err != nil {
				return err
			}
			return os.WriteFile(logs[0], bytes.Replace(content, []byte("xxxx"), []byte("yyyy"), 1), 0o600)
		},
		"log is junk": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
			if err != nil || len(logs) == 0 {
				return err
			}
			return os.WriteFile(logs[0], []byte(strings.Repeat("junk", 1<<12)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etcd")
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			if err := breakIt(dir); err != nil {
				t.Fatal(err)
			}
			s, err := Start(t.Context(), Options{Dir: dir})
			if err == nil {
				s.Stop()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want one line that names the directory", err)
			}
			if told := strings.Contains(err.Error(), "may be damaged: restore a copy"); told != (name != "directory is a file") {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// TestLogWithoutItsEnd checks that a start without the end of the log says so, and ends.
func TestLogWithoutItsEnd(t *testing.T) {
	defer func(was time.Duration) { silence = was }(silence)
	silence = 100 * time.Millisecond
	dir := filepath.Join(t.TempDir(), "etcd")
	log := filepath.Join(dir, "member", "wal")
	start(t, Options{Dir: dir}).Stop()
	before := filepath.Join(t.TempDir(), "wal")
	if err := os.CopyFS(before, os.DirFS(log)); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Dir: dir})
	for range 100 {
		put(t, s.Client(), "/a", "1")
	}
	s.Stop()
	if err := errors.Join(os.RemoveAll(log), os.CopyFS(log, os.DirFS(before))); err != nil {
		t.Fatal(err)
	}
	var said []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Dir: dir, Waiting: func(message string) { said = append(said, message) }})
	if err == nil {
		s.Stop()
		t.Fatal("started")
	}
	for _, want := range []string{log, "the end is missing", "restore a copy"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got error %v, want one line with %q", err, want)
		}
	}
	if len(said) == 0 || !strings.Contains(said[0], "does not serve after") || !strings.Contains(said[0], log) {
		t.Errorf("said %q, want where the log is", said)
	}
}

func TestSpaceQuota(t *testing.T) {
	o := Options{Dir: t.TempDir(), QuotaBackendBytes: 32 << 20}
	s := start(t, o)
	fill := func(prefix string) {
		t.Helper()
		value := strings.Repeat("x", 1<<18)
		for i := range 200 {
			_, err := s.Client().Put(t.Context(), fmt.Sprintf("%s/%d", prefix, i), value)
			if errors.Is(err, rpctypes.ErrNoSpace) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			s.etcd.Server.Backend().ForceCommit() // when etcd measures itself
		}
		t.Fatal("there is no quota")
	}
	// takesWrites returns when space was found. Pages are free when nobody reads
	// what was on them, so that it may take more than one look.
	takesWrites := func() {
		t.Helper()
		err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, s.reclaim)
		if err != nil {
			t.Fatal(err)
		}
	}
	// Some of what is written is pages that nobody uses any more.
	for round, taken := 0, true; taken; round++ {
		fill(fmt.Sprintf("/a/%d", round))
		var err error
		if taken, err = s.reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Client().Put(t.Context(), "/b", "1"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("got error %v", err)
	}
	if _, err := s.Client().Delete(t.Context(), "/a/", clientv3.WithPrefix()); err != nil {
		t.Errorf("deleting: %v", err)
	}
	takesWrites()
	put(t, s.Client(), "/b", "1")

	fill("/c")
	s.Stop()
	o.QuotaBackendBytes = -1 // none
	s = start(t, o)
	takesWrites()
	put(t, s.Client(), "/d", "1")
	wantValue(t, s.Client(), "/b", "1")
}

// Whoever starts on a full disk must not take it for a damaged one.
func TestFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		full    bool
		damaged bool
	}{
		"wrapped":   {fmt.Errorf("failed to commit: %w", &os.PathError{Op: "write", Path: "db", Err: syscall.ENOSPC}), true, false},
		"told":      {errors.New("panic: write db: " + syscall.ENOSPC.Error()), true, false},
		"one share": {&os.PathError{Op: "write", Path: "db", Err: syscall.EDQUOT}, true, false},
		"memory":    {fmt.Errorf("mmap: %w", syscall.ENOMEM), false, false},
		"another":   {errors.New("page 7: invalid page type"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			message := damaged(failure("/state/etcd", tc.err)).Error()
			if !strings.Contains(message, "/state/etcd") || !strings.Contains(message, tc.err.Error()) {
				t.Errorf("%q lacks the directory or the cause", message)
			}
			if got := strings.Contains(message, "the disk of /state/etcd is full"); got != tc.full {
				t.Errorf("%q says that the disk is full: %v", message, got)
			}
			if got := strings.Contains(message, "damaged"); got != tc.damaged {
				t.Errorf("%q says that data may be damaged: %v", message, got)
			}
		})
	}
}

// events is a stream of one event of a revision.
type events struct {
	etcdserverpb.Watch_WatchClient
	revision int64
}

func (e events) Recv() (*etcdserverpb.WatchResponse, error) {
	return &etcdserverpb.WatchResponse{Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{ModRevision: e.revision}}}}, nil
}

func (e events) Watch(context.Context, ...grpc.CallOption) (etcdserverpb.Watch_WatchClient, error) {
	return e, nil
}

// TestEventsCanBeRead checks that who hears of a write can read it. Controllers read an
// object anew when they hear that it has changed.
func TestEventsCanBeRead(t *testing.T) {
	const told = 7
	current := int64(told - 3)
	stream, err := readable{events{revision: told}, func() int64 { current++; return current }}.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil || len(response.Events) != 1 {
		t.Fatalf("received %v, %v", response, err)
	}
	if current < told {
		t.Errorf("told of revision %d when %d could be read", told, current)
	}
}

// TestEventsAreRead checks the same of a server.
func TestEventsAreRead(t *testing.T) {
	const writes = 5_000
	s := start(t, Options{Dir: filepath.Join(t.TempDir(), "etcd")})
	kv := s.sharedClient(0).kv
	events := s.newClient().Watch(t.Context(), "/key")
	written := make(chan error, 1)
	go func() {
		for range writes {
			if _, err := s.Client().Put(t.Context(), "/key", "value"); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	unread := 0
	for heard := 0; heard < writes; {
		response := <-events
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		heard += len(response.Events)
		told := response.Events[len(response.Events)-1].Kv.ModRevision
		read, err := kv.Get(t.Context(), "/key")
		if err != nil {
			t.Fatal(err)
		}
		if len(read.Kvs) == 0 || read.Kvs[0].ModRevision < told {
			unread++
		}
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if unread > 0 {
		t.Errorf("%d of %d writes could not be read when they were heard of", unread, writes)
	}
}
