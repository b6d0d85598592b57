package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// kinds are those of the objects, by how often there is one.
var kinds = []struct {
	share    int
	resource schema.GroupResource
	kind     string
}{
	{50, schema.GroupResource{Resource: "pods"}, "Pod"},
	{10, schema.GroupResource{Group: "apps", Resource: "replicasets"}, "ReplicaSet"},
	{8, schema.GroupResource{Group: "apps", Resource: "deployments"}, "Deployment"},
	{8, schema.GroupResource{Resource: "configmaps"}, "ConfigMap"},
	{8, schema.GroupResource{Resource: "secrets"}, "Secret"},
	{6, schema.GroupResource{Resource: "services"}, "Service"},
	{6, schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, "EndpointSlice"},
	{4, schema.GroupResource{Group: "example.com", Resource: "widgets"}, "Widget"},
}

var everything = func() *rights.Set {
	set := &rights.Set{Whole: sets.New[schema.GroupResource]()}
	for _, k := range kinds {
		set.Whole.Insert(k.resource)
	}
	return set
}()

const (
	// apps is how many applications a space has, and namespaces how many namespaces.
	apps, namespaces             = 40, 10
	wideSpace        tenant.Name = "wide"
)

var words = []string{"nginx", "redis", "kafka", "mysql", "vault", "proxy", "cache", "queue", "store", "front"}

func spaceName(i int) tenant.Name { return tenant.Name(fmt.Sprintf("tenant-%04d", i)) }

func key(row *index.Row) string {
	return fmt.Sprintf("/registry/%s/%s/%s/%s", row.Resource, row.Space, row.Namespace, row.Name)
}

// rows are all objects, in the order of their keys in etcd as far as the resource leads it.
func (b *bench) rows() iter.Seq[index.Row] {
	random := rand.New(rand.NewPCG(1, 2)) // the same each time
	return func(yield func(index.Row) bool) {
		for _, k := range kinds {
			for s := range b.spaces {
				size := (b.objects - b.large) / (b.spaces - 1)
				if s == 0 {
					size = b.large
				}
				for i := range size * k.share / 100 {
					row := newRow(random, spaceName(s), k.resource, k.kind, fmt.Sprint("team-", i%namespaces), i)
					relate(&row, size, i)
					if !yield(row) {
						return
					}
				}
			}
		}
		for i := range b.wide {
			for _, k := range kinds[3:5] {
				if !yield(newRow(random, wideSpace, k.resource, k.kind, fmt.Sprint("team-", i), i)) {
					return
				}
			}
		}
	}
}

const letters = "bcdfghjklmnpqrstvwxz2456789"

func word(random *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

func newRow(random *rand.Rand, space tenant.Name, resource schema.GroupResource, kind, namespace string, i int) index.Row {
	app := random.IntN(apps)
	hash := word(random, 10)
	row := index.Row{Space: space, Resource: resource, Kind: kind, Namespace: namespace, Name: fmt.Sprintf("%s-app-%d-%s-%s-%d", words[app%len(words)], app, hash, word(random, 5), i),
		Created: time.Date(2024, 1, 1+random.IntN(5), random.IntN(24), 0, 0, 0, time.UTC).Unix()}
	row.UID = fmt.Sprintf("%s-%s-%s", word(random, 8), word(random, 4), word(random, 12))
	row.Labels = map[string]string{
		"app": fmt.Sprint("app-", app), "app.kubernetes.io/name": words[app%len(words)], "app.kubernetes.io/managed-by": "Helm",
		"tier": []string{"web", "data", "batch"}[random.IntN(3)], "pod-template-hash": hash,
	}
	if kind == "Pod" {
		row.Status = []string{"Running", "Running", "Running", "Pending", "Failed"}[random.IntN(5)]
	}
	return row
}

// shareOf returns how many objects of a kind a space of some size has.
func shareOf(kind string, size int) int {
	for _, k := range kinds {
		if k.kind == kind {
			return size * k.share / 100
		}
	}
	return 0
}

// uidOf returns the UID of the object of a kind that is the i-th of its space.
func uidOf(space tenant.Name, kind string, i int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%s/%d", space, kind, i)).String()
}

// relate gives an object of a space of some size its links, as a Deployment and a Service of a few pods have them: to
// its owner, which is in the same namespace, and of pods to a ConfigMap that several share.
func relate(row *index.Row, size, i int) {
	row.UID = uidOf(row.Space, row.Kind, i)
	if owner := owners[row.Kind]; owner != "" {
		if n := shareOf(owner, size) / namespaces * namespaces; n > 0 {
			row.Links = append(row.Links, index.Link{Relation: properties.OwnedBy, To: index.ToUID(uidOf(row.Space, owner, i%n))})
		}
	}
	switch row.Kind {
	case "Pod":
		if n := sharedBy(size); n > 0 {
			row.Links = append(row.Links, index.Link{Relation: properties.AttachedTo, To: index.ToPlace(configMaps, row.Namespace, fmt.Sprint("settings-", i%n))})
		}
	case "ConfigMap":
		if i < sharedBy(size) {
			row.Name = fmt.Sprint("settings-", i)
		}
	case "Service":
		row.Selector = map[string]string{"app": row.Labels["app"]}
	}
}

// sharedBy returns how many ConfigMaps a space of some size has that pods share: a few for each application, and so
// many that what is related to a page of them is not more than an answer may have.
func sharedBy(size int) int {
	return min(max(namespaces*apps, shareOf("Pod", size)/maxSharing), shareOf("ConfigMap", size)) / namespaces * namespaces
}

// maxSharing is how many pods share one of many ConfigMaps.
const maxSharing = 125

// owners are the kinds of owners.
var owners = map[string]string{"Pod": "ReplicaSet", "ReplicaSet": "Deployment", "EndpointSlice": "Service"}

var (
	pods       = schema.GroupResource{Resource: "pods"}
	services   = schema.GroupResource{Resource: "services"}
	configMaps = schema.GroupResource{Resource: "configmaps"}
)

// bound are the rights of a user who is bound in every namespace of the wide space.
func (b *bench) bound() *rights.Set {
	g := rights.Group{Resources: sets.New[schema.GroupResource](), Namespaces: sets.New[string]()}
	for _, k := range kinds {
		g.Resources.Insert(k.resource)
	}
	for i := range b.wide {
		g.Namespaces.Insert(fmt.Sprint("team-", i))
	}
	return &rights.Set{Groups: []rights.Group{g}}
}

// busy measures queries while objects change, and how long a change takes to be found.
func (b *bench) busy(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	random := rand.New(rand.NewPCG(3, 4)) // the same each time
	lags := make(chan []time.Duration, 1)
	var failed error
	go func() {
		var all []time.Duration
		var waiting []time.Time
		var writes []index.Write
		began := time.Now()
		for n := 0; ctx.Err() == nil && time.Since(began) < b.lasting; {
			for due := int(time.Since(began).Seconds() * float64(b.changes)); n < due; n++ {
				k := kinds[random.IntN(len(kinds))]
				row := newRow(random, spaceName(random.IntN(b.spaces)), k.resource, k.kind, fmt.Sprint("team-", n%namespaces), n%1000)
				row.Name = fmt.Sprint("changing-", n%1000)
				writes, waiting = append(writes, index.Write{Key: key(&row), Rows: []index.Row{row}}), append(waiting, began.Add(time.Duration(float64(n)/float64(b.changes)*float64(time.Second))))
			}
			if len(writes) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			b.revision++
			if _, failed = b.index.Apply(ctx, writes, b.revision); failed != nil {
				break
			}
			for _, since := range waiting {
				all = append(all, time.Since(since))
			}
			writes, waiting = writes[:0], waiting[:0]
		}
		lags <- all
	}()
	err := b.queries(ctx, fmt.Sprintf("%d changes a second", b.changes))
	all := <-lags
	if err != nil || failed != nil || len(all) == 0 {
		return fmt.Errorf("%d changes: %w, %w", len(all), err, failed)
	}
	fmt.Printf("%d changes were found after %s ms (p50), %s ms (p95) and %s ms (p99).\n", len(all), quantile(all, .5), quantile(all, .95), quantile(all, .99))
	return nil
}
