package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

// verify compares what is in every space, as its users and as etcd see it, with what
// is to be there, before and after a restart, which must change nothing.
func (t *trial) verify(ctx context.Context) error {
	originals, err := t.originals(ctx)
	if err != nil {
		return err
	}
	from, err := t.verifySpaces(ctx, originals)
	if err != nil {
		return err
	}
	t.end(syscall.SIGTERM)
	before, err := t.stored(ctx)
	if err != nil {
		return err
	}
	if err := t.verifyStored(before, from); err != nil {
		return err
	}
	harness.Row("verified", "%d objects in %d spaces, by request and in etcd", len(originals), len(t.spaces))
	if err := t.start(ctx); err != nil {
		return err
	}
	time.Sleep(quiet)
	t.end(syscall.SIGTERM)
	after, err := t.stored(ctx)
	if err != nil {
		return err
	}
	return verifyUnchanged(before, after)
}

// originals are the published objects of the system space, by name. They must be as
// they were acknowledged.
func (t *trial) originals(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	originals := map[string]*unstructured.Unstructured{}
	for _, resource := range published {
		found, err := t.running.inSpace(ctx, tenant.System, resource)
		if err != nil {
			return nil, err
		}
		maps.Copy(originals, found)
	}
	for i, want := range t.objects {
		_, o := object(i)
		name := o.GetName()
		is, there := originals[name]
		switch {
		case there != want.there, there && is.GetLabels()["edition"] != want.content:
			return nil, fmt.Errorf("published object %q is lost: it was to be %+v, and is %v", name, want, is)
		case !want.published:
			delete(originals, name)
		}
	}
	return originals, nil
}

// inSpace returns the objects of a space, copies or not, that have the names of
// published ones.
func (c *clients) inSpace(ctx context.Context, n tenant.Name, resource schema.GroupVersionResource) (map[string]*unstructured.Unstructured, error) {
	config := c.config
	if n != tenant.System {
		config = harness.InSpace(config, n.String())
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s of %q: %w", resource.Resource, n, err)
	}
	found := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		if o := &list.Items[i]; strings.HasPrefix(o.GetName(), prefix) {
			found[o.GetName()] = o
		}
	}
	return found, nil
}

// verifySpaces reads all spaces, and returns what the copies say they are from.
func (t *trial) verifySpaces(ctx context.Context, originals map[string]*unstructured.Unstructured) (map[string]string, error) {
	var mu sync.Mutex
	var wrong []error
	from, uids := map[string]string{}, map[types.UID]bool{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, i := range t.spaces {
		group.Go(func() error {
			copies := map[string]*unstructured.Unstructured{}
			for _, resource := range published {
				found, err := t.running.inSpace(groupCtx, tenant.Name(tenantName(i)), resource)
				if err != nil {
					return err
				}
				maps.Copy(copies, found)
			}
			mu.Lock()
			defer mu.Unlock()
			for name, o := range copies {
				if uids[o.GetUID()] {
					wrong = append(wrong, fmt.Errorf("two objects have the UID of %q of %q", name, tenantName(i)))
				}
				uids[o.GetUID()] = true
				if originals[name] == nil {
					wrong = append(wrong, fmt.Errorf("%q of %q is stale: %v", name, tenantName(i), o))
				}
			}
			for name, original := range originals {
				if err := sameContent(original, copies[name], from); err != nil {
					wrong = append(wrong, fmt.Errorf("%q of %q: %w", name, tenantName(i), err))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return from, some(wrong)
}

// sameContent compares a copy with its original and with the other copies.
func sameContent(original, is *unstructured.Unstructured, from map[string]string) error {
	if is == nil {
		return errors.New("is missing")
	}
	name, made := original.GetName(), is.GetAnnotations()[tenant.PublishedFromAnnotation]
	if from[name] == "" {
		from[name] = made
	}
	switch {
	case is.GetLabels()[tenant.PublishedCopyLabel] != tenant.PublishedCopy:
		return fmt.Errorf("is not marked: %v", is)
	case !strings.HasPrefix(made, string(original.GetUID())+"/"), from[name] != made:
		return fmt.Errorf("is of something else, %q and not %q", made, from[name])
	case !apiequality.Semantic.DeepEqual(contentOf(original), contentOf(is)):
		return fmt.Errorf("is %v, and the original %v", contentOf(is), contentOf(original))
	default:
		return nil
	}
}

// contentOf is what of an object is to be the same in every space.
func contentOf(o *unstructured.Unstructured) map[string]any {
	content := maps.Clone(o.Object)
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, tenant.PublishedCopyLabel)
	for _, key := range []string{tenant.Annotation, tenant.PublishedAnnotation, tenant.PublishedFromAnnotation, corev1.LastAppliedConfigAnnotation} {
		delete(annotations, key)
	}
	content["metadata"] = map[string]any{"name": o.GetName(), "namespace": o.GetNamespace(), "labels": labels, "annotations": annotations}
	return content
}

// value is a version of what etcd holds.
type value struct {
	modified int64
	data     []byte
}

// stored is everything in the etcd of a process that has ended.
func (t *trial) stored(ctx context.Context) (map[string]value, error) {
	server, err := etcd.Start(ctx, etcd.Options{Dir: t.at.EtcdDir()})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client := server.Client()
	defer client.Close()
	response, err := client.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	stored := make(map[string]value, len(response.Kvs))
	for _, kv := range response.Kvs {
		stored[string(kv.Key)] = value{kv.ModRevision, kv.Value}
	}
	return stored, nil
}

// verifyStored compares the keys of copies with those that are to be, and what they
// are from.
func (t *trial) verifyStored(stored map[string]value, from map[string]string) error {
	want := map[string]string{}
	for i, s := range t.objects {
		resource, o := object(i)
		place := o.GetName()
		if o.GetNamespace() != "" {
			place = o.GetNamespace() + "/" + place
		}
		if s.there {
			want["/registry/"+resource.Resource+"/"+place] = ""
		}
		if s.published {
			for _, space := range t.spaces {
				want["/registry/"+resource.Resource+"/"+tenantName(space)+"/"+place] = from[o.GetName()]
			}
		}
	}
	var wrong []error
	for key := range stored {
		resource, _, _ := strings.Cut(strings.TrimPrefix(key, "/registry/"), "/")
		if _, ok := want[key]; !ok && strings.Contains(key, "/"+prefix) && resource != "events" {
			wrong = append(wrong, fmt.Errorf("%s is stored and should not be", key))
		}
	}
	for key, from := range want {
		if is, ok := stored[key]; !ok || !bytes.Contains(is.data, []byte(from)) {
			wrong = append(wrong, fmt.Errorf("%s is not stored as it is to be", key))
		}
	}
	return some(wrong)
}

// verifyUnchanged compares what is stored before and after a restart. In the system
// space it writes who lives, where the server is, and what happened.
func verifyUnchanged(before, after map[string]value) error {
	var wrong []error
	own := 0
	look := func(key string, done string) {
		if strings.Contains(key, "/"+tenantPrefix) || strings.Contains(key, "/"+prefix) || strings.Contains(key, "/publishedobjects/") {
			wrong = append(wrong, fmt.Errorf("%s was %s by a restart", key, done))
		} else {
			own++
		}
	}
	for key, is := range after {
		if was, ok := before[key]; !ok || was.modified != is.modified {
			look(key, "written")
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			look(key, "deleted")
		}
	}
	harness.Row("a restart and "+quiet.String()+" that have nothing to do", "of %d keys none written in any space, %d in that of the system, such as leases",
		len(after), own)
	return some(wrong)
}

// some returns the first errors, and how many there are.
func some(all []error) error {
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d are wrong, such as: %w", len(all), errors.Join(all[:min(len(all), 20)]...))
}
