package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/test/harness"
)

func main() {
	binary := flag.String("binary", "bin/tenantry", "The binary to measure.")
	spaces := flag.Int("spaces", 1000, "Number of tenants.")
	count := flag.Int("objects", 100, "Number of published objects.")
	kills := flag.Int("kill", 0, "Kill the process so many times while objects and tenants come, change and go, and verify every copy, instead of measuring.")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "What the kills and changes are derived from.")
	flag.Parse()
	fmt.Printf("%d cores, %s.\n", runtime.NumCPU(), runtime.Version())
	fmt.Printf("\n## %d objects in %d spaces\n\n| what | measured |\n|---|---|\n", *count, *spaces)
	harness.Main("published", func(ctx context.Context) error {
		return harness.Install("published", *binary, func(at harness.Installation) error {
			if *kills == 0 {
				return measure(ctx, at, *spaces, *count)
			}
			harness.Row("seed", "%d", *seed)
			return survive(ctx, &trial{at: at, seed: *seed}, *spaces, *count, *kills)
		})
	})
}

func measure(ctx context.Context, at harness.Installation, spaces, count int) error {
	p, err := start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { p.End(syscall.SIGTERM) }()
	if err := p.createTenants(ctx, 0, spaces); err != nil {
		return err
	}
	if err := p.measureCopies(ctx, spaces, count); err != nil {
		return err
	}

	// Killed in the middle of an edit.
	if err := p.edit(ctx, count, "second"); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	p.End(syscall.SIGKILL)
	if p, err = start(ctx, at); err != nil {
		return err
	}
	done, _, err := p.copies(ctx, "edition=second")
	if err != nil {
		return err
	}
	rest, err := p.awaitCopies(ctx, count*spaces, "edition=second")
	if err != nil {
		return err
	}
	harness.Row("edits, when the process is killed after 5 s", "%d of %d copies done; after the restart (%.1f s) the rest in %.1f s",
		done, count*spaces, p.Started.Seconds(), rest.Seconds())

	// A restart that has nothing to do.
	_, before, err := p.copies(ctx, "")
	if err != nil {
		return err
	}
	p.End(syscall.SIGTERM)
	if p, err = start(ctx, at); err != nil {
		return err
	}
	time.Sleep(20 * time.Second)
	if _, after, err := p.copies(ctx, ""); err != nil || after != before {
		return errors.Join(err, fmt.Errorf("the versions of copies were %x, and %x after a restart", before, after))
	}
	u, err := p.usage(ctx)
	if err != nil {
		return err
	}
	harness.Row("a restart that has nothing to do", "no copy written; %.1f s of processor time in 20 s, %d MiB resident, %d goroutines",
		u.cpu.Seconds(), u.resident>>20, u.goroutines)

	began := time.Now()
	if err := p.createTenants(ctx, spaces, spaces+1); err != nil {
		return err
	}
	harness.Row("a new tenant, from applied to Ready", "%d ms", time.Since(began).Milliseconds())

	if err := p.each(count, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		return client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	removed, err := p.awaitCopies(ctx, 0, "")
	if err != nil {
		return err
	}
	harness.Row("removal", "%.1f s, %.0f copies/s", removed.Seconds(), float64(count*(spaces+1))/removed.Seconds())
	return nil
}

// measureCopies publishes and edits.
func (p *system) measureCopies(ctx context.Context, spaces, count int) error {
	before, err := p.usage(ctx)
	if err != nil {
		return err
	}
	_, err = p.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := p.each(count, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := client.Create(ctx, o, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	took, err := p.await(ctx, count, spaces)
	if err != nil {
		return err
	}
	if copies, _, err := p.copies(ctx, ""); err != nil || copies != count*spaces {
		return errors.Join(err, fmt.Errorf("%d copies, want %d", copies, count*spaces))
	}
	after, err := p.usage(ctx)
	if err != nil {
		return err
	}
	harness.Row("all copies", "%.1f s, %.0f copies/s; %.0f s of processor time", took.Seconds(),
		float64(count*spaces)/took.Seconds(), (after.cpu - before.cpu).Seconds())
	harness.Row("resident memory of the process", "%d to %d MiB, %.1f KiB for each copy", before.resident>>20, after.resident>>20,
		float64(after.resident-before.resident)/1024/float64(count*spaces))
	harness.Row("goroutines", "%d to %d", before.goroutines, after.goroutines)
	if err := p.edit(ctx, count, "first"); err != nil {
		return err
	}
	if took, err = p.awaitCopies(ctx, count*spaces, "edition=first"); err != nil {
		return err
	}
	harness.Row("edits of all", "%.1f s, %.0f copies/s", took.Seconds(), float64(count*spaces)/took.Seconds())
	return nil
}
