package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/postgres"
	"github.com/tenantry/tenantry/test/harness"
)

// options are the flags.
type options struct {
	database                             string
	objects, spaces, large, wide, rounds int
	changes                              int
	lasting                              time.Duration
	only                                 string
}

func main() {
	var o options
	flag.StringVar(&o.database, "database", "sqlite", "sqlite or postgres.")
	flag.IntVar(&o.objects, "objects", 100_000, "Number of objects in all.")
	flag.IntVar(&o.spaces, "spaces", 1000, "Number of spaces.")
	flag.IntVar(&o.large, "large", 30_000, "Number of objects of all in one of the spaces.")
	flag.IntVar(&o.wide, "wide", 10_000, "Number of namespaces in one more space, in each of which a user is bound, with two objects each.")
	flag.IntVar(&o.rounds, "rounds", 200, "Number of queries of each kind.")
	flag.IntVar(&o.changes, "changes", 500, "Changes in a second, beside which queries are measured once more.")
	flag.DurationVar(&o.lasting, "lasting", 20*time.Second, "For how long changes are written.")
	flag.StringVar(&o.only, "only", "", "Part of the names of the queries that are measured, all of them if empty.")
	flag.Parse()
	harness.Main("search", func(ctx context.Context) error {
		return harness.InTempDir("search", func(dir string) error { return o.run(ctx, dir) })
	})
}

func (o options) run(ctx context.Context, dir string) error {
	b := &bench{options: o, dir: filepath.Join(dir, "index")}
	stop, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d cores, %s, %s; %d objects in %d spaces, %d of them in one, and %d namespaces in one more.\n\n",
		runtime.NumCPU(), runtime.Version(), b.version, o.objects, o.spaces, o.large, o.wide)
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := b.queries(ctx, "nothing else"); err != nil {
		return err
	}
	return b.busy(ctx)
}

// bench is an index that is measured.
type bench struct {
	options
	dir, version string
	index        *index.Index
	size         func() (int64, error)
	revision     int64
}

// open opens an empty database.
func (b *bench) open(ctx context.Context) (stop func(), err error) {
	switch b.database {
	case "sqlite":
		b.version = "SQLite, without cgo"
		b.size = func() (int64, error) { return sizeOf(b.dir) }
		b.index, err = index.Open(ctx, b.dir)
		stop = func() {}
	case "postgres":
		b.version = "PostgreSQL 15 on loopback"
		stop, err = b.openPostgres(ctx)
	default:
		return nil, fmt.Errorf("-database is %q, and must be sqlite or postgres", b.database)
	}
	if err != nil {
		return nil, err
	}
	if leads, err := b.index.Lead(ctx); err != nil || !leads {
		return nil, fmt.Errorf("writing the index: %v, %w", leads, err)
	}
	remove := stop
	ended := func() {
		_ = b.index.Close()
		remove()
	}
	return ended, b.index.Reset(ctx, "bench")
}

func (b *bench) openPostgres(ctx context.Context) (stop func(), err error) {
	postgres.Settings = []string{"shared_buffers=1GB", "max_wal_size=4GB"} // and fsync, as it is used
	server, err := postgres.Start(ctx)
	if err != nil {
		return nil, err
	}
	stop = func() { _ = server.Remove() }
	url, err := server.Create(ctx)
	if err != nil {
		return stop, err
	}
	file := b.dir + ".postgres"
	if err := os.WriteFile(file, []byte(url), 0o600); err != nil {
		return stop, err
	}
	b.size = func() (int64, error) { return server.Size(ctx, url) }
	b.index, err = index.OpenPostgres(ctx, file, index.NewHolder())
	return stop, err
}

func sizeOf(dir string) (int64, error) {
	total := int64(0)
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
	}
	return total, err
}

// batch is how many objects are written at once, as by the service.
const batch = 2000

func (b *bench) build(ctx context.Context) error {
	began := time.Now()
	written := 0
	var writes []index.Write
	flush := func(revision int64) error {
		_, err := b.index.Apply(ctx, writes, revision)
		written += len(writes)
		writes = writes[:0]
		return err
	}
	for row := range b.rows() {
		writes = append(writes, index.Write{Key: key(&row), Rows: []index.Row{row}})
		if len(writes) == batch {
			if err := flush(index.Building); err != nil {
				return err
			}
		}
	}
	b.revision = 1
	if err := flush(b.revision); err != nil {
		return err
	}
	took := time.Since(began)
	if err := b.index.Settle(ctx); err != nil {
		return err
	}
	size, err := b.size()
	if err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("| objects | built in | objects in a second | settled in | size | bytes for an object | resident memory of the process |\n|---|---|---|---|---|---|---|\n| %d | %.0f s | %.0f | %.1f s | %d MB | %d | %d MB |\n\n",
		written, took.Seconds(), float64(written)/took.Seconds(), time.Since(began).Seconds()-took.Seconds(), size>>20, size/int64(written), harness.Value(status, "VmRSS:")>>10)
	return nil
}

// asks are the kinds of queries: where, what, and by whose rights.
func (b *bench) asks() []ask {
	small := func(i int) tenant.Name { return spaceName(1 + i*7919%(b.spaces-1)) }
	large := func(int) tenant.Name { return spaceName(0) }
	wide := func(int) tenant.Name { return wideSpace }
	app := func(i int) string { return fmt.Sprint("app-", i%apps) }
	var asks []ask
	add := func(name, where string, space func(int) tenant.Name, visible *rights.Set, text func(i int) string, what asked) {
		asks = append(asks, ask{name, where, space, text, visible, what})
	}
	always := func(text string) func(int) string { return func(int) string { return text } }
	label := func(i int) string { return "label:app=" + app(i) }
	add("the first page of one bound in every namespace", "many namespaces", wide, b.bound(), always(""), page(100))
	add("one filter, of one bound in every namespace", "many namespaces", wide, b.bound(), label, page(100))
	add("completion of a label, of one bound in every namespace", "many namespaces", wide, b.bound(), always(""), values("label"))
	for _, in := range []struct {
		name  string
		space func(int) tenant.Name
	}{{"a space", small}, {"the largest space", large}} {
		add := func(name string, text func(i int) string, what asked) {
			add(name, in.name, in.space, everything, text, what)
		}
		add("one filter", label, page(100))
		add("one filter, of the kind", always("kind:service"), page(100))
		add("three filters", func(i int) string { return "kind:pod status:Running " + label(i) }, page(100))
		add("three filters that find a third", always("kind:pod status:Running created:>2024-01-02"), page(100))
		add("two keywords, one rare and one of one letter", func(i int) string { return fmt.Sprintf("%s-%d %d", app(i)[3:], i%10, i%7) }, page(100))
		add("a keyword of five letters", func(i int) string { return words[i%len(words)] }, page(100))
		add("a keyword of three letters", func(i int) string { return words[i%len(words)][:3] }, page(100))
		add("a keyword of two letters", func(i int) string { return words[i%len(words)][:2] }, page(100))
		add("a keyword of one letter", func(i int) string { return words[i%len(words)][:1] }, page(100))
		add("one filter that finds a third, and a keyword", func(i int) string { return "status:Running " + app(i) }, page(100))
		add("an exact count", always("status:Running"), page(1))
		add("everything", always(""), page(100))
		add("completion of a name of a property", always(""), names)
		add("completion of a phase", always(""), values("status"))
		add("completion of a label", always(""), values("label"))
		add("completion of a namespace", always(""), values("namespace"))
		add("completion of a label, of what has one that begins so", func(i int) string { return label(i) + "*" }, values("label"))
		add("completion of a name, of those that begin so", func(i int) string { return "name:" + words[i%len(words)] + "-" + app(i) + "-*" }, values("name"))
		add("what is related to a page of pods", func(i int) string { return "kind:pod " + label(i) }, related(100))
		add("what is related to a page of ConfigMaps", always("kind:configmap name:settings-*"), related(100))
	}
	return asks
}

// ask is a kind of query.
type ask struct {
	name, where string
	space       func(i int) tenant.Name
	text        func(i int) string
	visible     *rights.Set
	asked       asked
}

func (b *bench) queries(ctx context.Context, beside string) error {
	fmt.Printf("Queries, pages of 100, beside %s:\n\n| query | in | rows or values, median | p50, ms | p95, ms | p99, ms | processor time of the program, ms |\n|---|---|---|---|---|---|---|\n", beside)
next:
	for _, a := range b.asks() {
		if !strings.Contains(a.name+", "+a.where, b.only) {
			continue
		}
		rounds := b.rounds
		if a.where != "a space" {
			rounds = max(10, rounds/5)
		}
		before := processorTime()
		times, counts := make([]time.Duration, 0, rounds), make([]int64, 0, rounds)
		for i := range rounds {
			q, err := query.Parse(a.text(i), time.Now())
			if err != nil {
				return err
			}
			began := time.Now()
			count := int64(0)
			err = b.index.View(ctx, func(s *index.Snapshot) error {
				count, err = a.asked(ctx, s, index.Scope{Space: a.space(i), Shared: true, Visible: a.visible}, q)
				return err
			})
			if errors.Is(err, index.ErrTooMuch) { // as in answers of the service, which are bounded
				fmt.Printf("| %s | %s | %v | | | | |\n", a.name, a.where, err)
				continue next
			}
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			times, counts = append(times, time.Since(began)), append(counts, count)
		}
		fmt.Printf("| %s | %s | %d | %s | %s | %s | %.2f |\n", a.name, a.where, harness.Median(counts), quantile(times, .5), quantile(times, .95), quantile(times, .99),
			(processorTime()-before).Seconds()*1000/float64(rounds))
	}
	fmt.Println()
	return nil
}

// processorTime returns that of this process, in which SQLite is. That of PostgreSQL is not in it.
func processorTime() time.Duration {
	taken, _ := harness.OwnCPU() // never fails
	return taken
}

func quantile(values []time.Duration, q float64) string {
	text := fmt.Sprintf("%.2f", float64(harness.Quantile(values, q).Microseconds())/1000)
	return strings.TrimSuffix(text, ".00")
}
