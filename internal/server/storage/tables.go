package storage

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/text"
)

// Upstream writes lists one object at a time, but makes all of a table in memory, and then all of
// its JSON. Several columns may show the same value, in JSON in JSON: of 84 MB of backslashes it made
// an answer of 2.7 GB, for which it took 6.7 GB. So tables in spaces have objects of these sizes, in bytes.
const (
	// maxTablePage is for the objects of a page. Its client reads the rest in further pages.
	maxTablePage = 4 << 20
	// maxTable is for those of a table without pages.
	maxTable = 16 << 20
	// maxBuiltInPage and maxBuiltIn are for tables that show nothing of an object twice.
	maxBuiltInPage = 16 << 20
	maxBuiltIn     = 64 << 20
	// maxMetrics is for lists of what a tenant defines in groups of metrics, which the controller of autoscalers reads
	// again and again: some thousand pods. Upstream copies each list of custom resources, which takes thirty times as
	// much memory.
	maxMetrics = 4 << 20
	// maxTableEvent is for the object of an event, which each watch encodes and holds by itself.
	maxTableEvent = 256 << 10
)

type tableContextKey struct{}

// table says what a table shows.
type table struct {
	// whole is whether its rows have the whole objects.
	whole bool
	// metrics is whether it is no table, but a list of metrics.
	metrics bool
}

// WithMetrics returns a context in which what is listed is metrics.
func WithMetrics(ctx context.Context) context.Context {
	return context.WithValue(ctx, tableContextKey{}, table{metrics: true})
}

// WithTable returns a context in which what is listed and watched becomes tables, with the whole
// objects in their rows or without.
func WithTable(ctx context.Context, whole bool) context.Context {
	return context.WithValue(ctx, tableContextKey{}, table{whole: whole})
}

// TableFrom reports whether ctx is that of a table, and whether its rows have the whole objects.
func TableFrom(ctx context.Context) (whole, ok bool) {
	t, ok := ctx.Value(tableContextKey{}).(table)
	return t.whole, ok
}

// measure is how the sizes of objects are told. Its name is that by which a size is stored with an
// object that watches share.
type measure struct {
	name   runtime.Identifier
	sizeOf func(obj runtime.Object) (int, error)
	// page and all are what tables have with pages and without.
	page, all int
}

// measureOf returns the measure of the objects for the request in ctx, nil if it is for no table.
func (s *limitedLists) measureOf(ctx context.Context) *measure {
	whole, ok := TableFrom(ctx)
	if !ok {
		return nil
	}
	if _, custom := s.newList().(*unstructured.UnstructuredList); custom {
		if t, _ := ctx.Value(tableContextKey{}).(table); t.metrics {
			return metricsMeasure
		}
		return customMeasure
	}
	if whole {
		return &measure{"tenantry-stored-bytes", s.storedBytes, maxTablePage, maxTable}
	}
	if slices.Contains(countedInColumns, s.resource) {
		return metadataMeasure
	}
	return builtInMeasure
}

// customMeasure is that of custom resources.
var customMeasure = &measure{"tenantry-json-bytes", func(obj runtime.Object) (int, error) {
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return 0, fmt.Errorf("measuring an object of a table: it is a %T", obj)
	}
	return jsonBytes(custom.Object), nil
}, maxTablePage, maxTable}

// metricsMeasure is customMeasure for lists of metrics, which clients read without pages.
var metricsMeasure = &measure{customMeasure.name, customMeasure.sizeOf, maxMetrics, maxMetrics}

// builtInMeasure is that of built-in resources, whose columns may have all subjects of a binding or all images of
// a template. An event is no larger than in a watch that is no table.
var builtInMeasure = &measure{"tenantry-built-in-bytes", func(obj runtime.Object) (int, error) {
	size, err := metadataBytes(obj)
	return size + memory.Of(obj), err
}, maxBuiltInPage, maxBuiltIn}

// metadataMeasure is that of the resources with the largest objects, whose columns count what is in them.
var metadataMeasure = &measure{"tenantry-metadata-bytes", metadataBytes, maxBuiltInPage, maxBuiltIn}

var countedInColumns = []schema.GroupResource{{Resource: "configmaps"}, {Resource: "secrets"}, {Resource: "pods"}}

// storedBytes returns how many bytes an object has when it is stored.
func (s *limitedLists) storedBytes(obj runtime.Object) (int, error) {
	data, err := runtime.Encode(s.codec, obj)
	if err != nil {
		return 0, fmt.Errorf("measuring an object of a table: %w", err)
	}
	return len(data), nil
}

// getTable lists what becomes a table. A page that is too large is read again with fewer objects.
func (s *limitedLists) getTable(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object, by *measure) error {
	ctx = cachememory.WithRereads(ctx)
	most := by.all
	if opts.Predicate.Limit > 0 {
		most, opts = by.page, withPages(opts)
	}
	for {
		if err := s.getLimited(ctx, key, opts, list); err != nil {
			return err
		}
		n, fits, err := by.fitting(list, most)
		if err != nil || fits {
			return err
		}
		if int64(n) >= opts.Predicate.Limit { // there are no pages
			return tableExceeded(s.resource, by.all)
		}
		opts.Predicate.Limit = int64(n)
		if err := meta.SetList(list, nil); err != nil { // to which upstream adds
			return err
		}
	}
}

// fitting returns how many objects of a list have at most so many bytes, and whether all have. One
// object always fits.
func (m *measure) fitting(list runtime.Object, most int) (n int, fits bool, err error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return 0, false, err
	}
	for i, item := range items {
		size, err := m.sizeOf(item)
		if err != nil {
			return 0, false, err
		}
		if most -= size; most < 0 && len(items) > 1 {
			return max(i, 1), false, nil
		}
	}
	return len(items), true, nil
}

// newTableWatch returns a watch that passes on the events of its source until one has a large object.
func newTableWatch(source watch.Interface, resource schema.GroupResource, by *measure) watch.Interface {
	return roundtrip.FilterWatch(source, func(event watch.Event) (watch.Event, bool) {
		size, err := by.sizeIn(event)
		if err == nil && size > maxTableEvent {
			err = eventExceeded(resource, event.Object, size)
		}
		if err != nil {
			return errorEvent(err), true
		}
		return event, true
	})
}

// sizeIn returns the size of the object of an event. One that watches share is measured once: it
// is copied for it.
func (m *measure) sizeIn(event watch.Event) (int, error) {
	if event.Type == watch.Error {
		return 0, nil
	}
	shared, ok := event.Object.(runtime.CacheableObject)
	if !ok {
		return m.sizeOf(event.Object)
	}
	var size strings.Builder
	if err := shared.CacheEncode(m.name, func(obj runtime.Object, w io.Writer) error {
		size, err := m.sizeOf(obj)
		if err == nil {
			_, err = io.WriteString(w, strconv.Itoa(size))
		}
		return err
	}, &size); err != nil {
		return 0, err
	}
	return strconv.Atoi(size.String())
}

// metadataBytes returns about how many bytes the metadata of an object has in JSON.
func metadataBytes(obj runtime.Object) (int, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return 0, fmt.Errorf("measuring an object of a table: %w", err)
	}
	size := text.JSONLen(accessor.GetName()) + text.JSONLen(accessor.GetGenerateName())
	for _, texts := range []map[string]string{accessor.GetLabels(), accessor.GetAnnotations()} {
		for key, value := range texts {
			size += text.JSONLen(key) + text.JSONLen(value)
		}
	}
	for _, owner := range accessor.GetOwnerReferences() {
		size += text.JSONLen(owner.APIVersion) + text.JSONLen(owner.Kind) + text.JSONLen(owner.Name) + text.JSONLen(owner.UID)
	}
	for _, finalizer := range accessor.GetFinalizers() {
		size += text.JSONLen(finalizer)
	}
	for _, entry := range accessor.GetManagedFields() {
		size += text.JSONLen(entry.Manager)
		if entry.FieldsV1 != nil {
			size += text.JSONLen(entry.FieldsV1.GetRawBytes())
		}
	}
	return size, nil
}

// jsonBytes returns about how many bytes a value has in JSON. Characters that are escaped there are
// escaped once more where a column shows them in JSON.
func jsonBytes(v any) int {
	const other = 8 // numbers, true, false and null
	switch v := v.(type) {
	case string:
		return text.JSONLen(v)
	case []any:
		size := 2
		for _, item := range v {
			size += jsonBytes(item) + 1
		}
		return size
	case map[string]any:
		size := 2
		for key, item := range v {
			size += text.JSONLen(key) + jsonBytes(item) + 2
		}
		return size
	default:
		return other
	}
}

// tableExceeded returns the error of a table without pages that is too large.
func tableExceeded(resource schema.GroupResource, most int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"these %s have more than %d bytes, which a table or a list of metrics without pages has at most in a space; "+
			"read them in pages, with limit and continue (kubectl --chunk-size), or tables as application/json (kubectl get -o yaml)",
		resource, most))
}

// eventExceeded returns the error of a watch with a large object.
func eventExceeded(resource schema.GroupResource, obj runtime.Object, size int) error {
	of := resource.String()
	if accessor, err := meta.Accessor(obj); err == nil {
		of += " " + types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}.String()
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"%s has %d bytes, and an object of a watch as a table has at most %d in a space; "+
			"watch as application/json (kubectl get -w -o yaml)", of, size, maxTableEvent))
}
