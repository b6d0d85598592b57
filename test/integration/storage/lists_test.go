package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// suiteLabel marks the objects of these tests among those that controllers make.
const suiteLabel = "storage.test/space"

// namespaces are called like tenants.
var namespaces = []string{"foo", "a", "default"}

const each = 5 // objects in each namespace

// resource is a kind of objects to list.
type resource struct {
	name   string
	create func(ctx context.Context, c kubernetes.Interface, meta metav1.ObjectMeta) error
	list   func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (runtime.Object, error)
	watch  func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (watch.Interface, error)
	clear  func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) error
}

var resources = []resource{
	{
		name: "configmaps",
		create: func(ctx context.Context, c kubernetes.Interface, m metav1.ObjectMeta) error {
			_, err := c.CoreV1().ConfigMaps(m.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{})
			return err
		},
		list: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().ConfigMaps(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().ConfigMaps(namespace).Watch(ctx, o)
		},
		clear: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) error {
			return c.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, o)
		},
	},
	{
		name: "events", // which have no watch cache
		create: func(ctx context.Context, c kubernetes.Interface, m metav1.ObjectMeta) error {
			_, err := c.EventsV1().Events(m.Namespace).Create(ctx, &eventsv1.Event{
				ObjectMeta: m, EventTime: metav1.NowMicro(), ReportingController: "test.example/storage", ReportingInstance: "0",
				Action: "Test", Reason: "Test", Type: corev1.EventTypeNormal,
				Regarding: corev1.ObjectReference{Kind: "Namespace", Name: m.Namespace, Namespace: m.Namespace},
			}, metav1.CreateOptions{})
			return err
		},
		list: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return c.EventsV1().Events(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) (watch.Interface, error) {
			return c.EventsV1().Events(namespace).Watch(ctx, o)
		},
		clear: func(ctx context.Context, c kubernetes.Interface, namespace string, o metav1.ListOptions) error {
			return c.EventsV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, o)
		},
	},
}

// want returns what a list in a space must find: space/namespace/name.
func want(n tenant.Name, namespace string) []string {
	owners := []tenant.Name{n}
	if n == suite.All {
		owners = spaces[1:]
	}
	var found []string
	for _, owner := range owners {
		for _, ns := range namespaces {
			for i := range each {
				if namespace == "" || namespace == ns {
					found = append(found, fmt.Sprintf("%s/%s/object-%d", owner, ns, i))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// ours returns the same of those objects in a list that the suite has made, and
// fails if any object at all is of another space.
func ours(n tenant.Name, list runtime.Object) []string {
	GinkgoHelper()
	items, err := meta.ExtractList(list)
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, item := range items {
		found = append(found, describe(n, item)...)
	}
	return found
}

func describe(n tenant.Name, item runtime.Object) []string {
	GinkgoHelper()
	object, err := meta.Accessor(item)
	Expect(err).NotTo(HaveOccurred())
	owner := tenant.Name(object.GetAnnotations()[tenant.Annotation])
	switch n {
	case tenant.System:
		Expect(owner).To(BeEmpty(), "%s/%s in the system space", object.GetNamespace(), object.GetName())
		owner = tenant.System
	case suite.All:
		Expect(owner).NotTo(BeEmpty(), "%s/%s is of the system space", object.GetNamespace(), object.GetName())
	default:
		Expect(owner).To(Equal(n), "%s/%s in the space of %s", object.GetNamespace(), object.GetName(), n)
	}
	made, ok := object.GetLabels()[suiteLabel]
	if !ok {
		return nil
	}
	Expect(made).To(Equal(owner.String()))
	return []string{fmt.Sprintf("%s/%s/%s", owner, object.GetNamespace(), object.GetName())}
}

var _ = Describe("Lists and watches", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		for _, n := range spaces {
			client := tenantry.Client(n)
			for _, namespace := range namespaces {
				ensureNamespace(ctx, client, namespace)
				for i := range each {
					for _, r := range resources {
						Expect(r.create(ctx, client, metav1.ObjectMeta{
							Namespace: namespace, Name: fmt.Sprintf("object-%d", i), Labels: map[string]string{suiteLabel: n.String()},
						})).To(Succeed())
					}
				}
			}
		}
	}, NodeTimeout(timeout))

	for _, r := range resources {
		for _, n := range append(slices.Clone(spaces), suite.All) {
			for _, namespace := range []string{"", "foo", "default"} {
				in := fmt.Sprintf("of %s in %q of %s", r.name, namespace, n)

				It("find their own: list "+in, func(ctx SpecContext) {
					client := tenantry.Client(n)
					now, err := r.list(ctx, client, namespace, metav1.ListOptions{Limit: 1})
					Expect(err).NotTo(HaveOccurred())
					version := now.(metav1.ListInterface).GetResourceVersion()
					for name, options := range map[string]metav1.ListOptions{
						"most recent":   {},
						"any":           {ResourceVersion: "0"},
						"not older":     {ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
						"exact":         {ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
						"by label":      {LabelSelector: suiteLabel},
						"other's label": {LabelSelector: suiteLabel + " notin (foo,foobar,a,a-b,system)"},
						"by name":       {FieldSelector: "metadata.name=object-3"},
						"by namespace":  {FieldSelector: "metadata.namespace=foo"},
					} {
						list, err := r.list(ctx, client, namespace, options)
						Expect(err).NotTo(HaveOccurred(), name)
						expected := want(n, namespace)
						switch name {
						case "other's label":
							expected = nil
						case "by name":
							expected = slices.DeleteFunc(expected, func(s string) bool { return s[len(s)-1] != '3' })
						case "by namespace":
							expected = nil
							if namespace == "" || namespace == "foo" {
								expected = want(n, "foo")
							}
						}
						found := ours(n, list)
						slices.Sort(found)
						Expect(found).To(Equal(expected), name)
					}
				}, SpecTimeout(timeout))

				It("find their own page by page: list "+in, func(ctx SpecContext) {
					client := tenantry.Client(n)
					now, err := r.list(ctx, client, namespace, metav1.ListOptions{Limit: 1})
					Expect(err).NotTo(HaveOccurred())
					version := now.(metav1.ListInterface).GetResourceVersion()
					for name, options := range map[string]metav1.ListOptions{
						"most recent": {Limit: 2},
						"any":         {Limit: 2, ResourceVersion: "0"},
						"exact":       {Limit: 2, ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
						"by label":    {Limit: 2, LabelSelector: suiteLabel},
					} {
						Expect(pages(ctx, r, client, n, namespace, options)).To(Equal(want(n, namespace)), name)
					}
				}, SpecTimeout(timeout))

				It("find their own: initial events "+in, func(ctx SpecContext) {
					client := tenantry.Client(n)
					for name, options := range map[string]metav1.ListOptions{
						"most recent": {SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true},
						"any":         {SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true, ResourceVersion: "0"},
					} {
						events, err := r.watch(ctx, client, namespace, options)
						Expect(err).NotTo(HaveOccurred(), name)
						Expect(initial(ctx, n, events)).To(Equal(want(n, namespace)), name)
						events.Stop()
					}
				}, SpecTimeout(timeout))
			}
		}
	}

	for _, r := range resources {
		It("tell only of changes in their space: "+r.name, func(ctx SpecContext) {
			const quiet, busy = tenant.Name("foo"), tenant.Name("foobar")
			client := tenantry.Client(quiet)
			now, err := r.list(ctx, client, "", metav1.ListOptions{Limit: 1})
			Expect(err).NotTo(HaveOccurred())
			events, err := r.watch(ctx, client, "", metav1.ListOptions{
				ResourceVersion: now.(metav1.ListInterface).GetResourceVersion(), AllowWatchBookmarks: true,
			})
			Expect(err).NotTo(HaveOccurred())
			defer events.Stop()
			for i := range 200 {
				for _, other := range []tenant.Name{busy, tenant.System} {
					Expect(r.create(ctx, clients[other](), metav1.ObjectMeta{Namespace: "foo", GenerateName: fmt.Sprintf("busy-%d-", i)})).To(Succeed())
				}
			}
			Expect(r.create(ctx, client, metav1.ObjectMeta{Namespace: "foo", Name: "last"})).To(Succeed())
			version := uint64(0)
			for event := range events.ResultChan() {
				Expect(event.Type).NotTo(Equal(watch.Error), "%v", event.Object)
				object, err := meta.Accessor(event.Object)
				Expect(err).NotTo(HaveOccurred())
				Expect(newer(&version, object.GetResourceVersion())).To(BeTrue(), "resource versions go back")
				if event.Type == watch.Bookmark {
					continue
				}
				Expect(object.GetName()).To(Equal("last"))
				return
			}
			Fail("the watch has ended")
		}, SpecTimeout(timeout))

		It("delete collections of their space alone: "+r.name, func(ctx SpecContext) {
			Expect(r.clear(ctx, tenantry.Client("foo"), "foo", metav1.ListOptions{LabelSelector: suiteLabel})).To(Succeed())
			for _, n := range spaces {
				list, err := r.list(ctx, tenantry.Client(n), "", metav1.ListOptions{LabelSelector: suiteLabel})
				Expect(err).NotTo(HaveOccurred())
				found := ours(n, list)
				slices.Sort(found)
				expected := want(n, "")
				if n == "foo" {
					expected = slices.DeleteFunc(expected, func(s string) bool { return slices.Contains(want("foo", "foo"), s) })
				}
				Expect(found).To(Equal(expected))
			}
		}, SpecTimeout(timeout))
	}
})

// clients are made once.
var clients = func() map[tenant.Name]func() kubernetes.Interface {
	made := map[tenant.Name]func() kubernetes.Interface{}
	for _, n := range spaces {
		var client kubernetes.Interface
		made[n] = func() kubernetes.Interface {
			if client == nil {
				client = tenantry.Client(n)
			}
			return client
		}
	}
	return made
}()

// pages lists page by page and checks what a page says of the rest.
func pages(ctx context.Context, r resource, client kubernetes.Interface, n tenant.Name, namespace string, options metav1.ListOptions) []string {
	GinkgoHelper()
	var found []string
	total, remaining := int64(0), []int64{}
	for {
		list, err := r.list(ctx, client, namespace, options)
		Expect(err).NotTo(HaveOccurred())
		page := list.(metav1.ListInterface)
		found = append(found, ours(n, list)...)
		total += int64(meta.LenList(list))
		if rest := page.GetRemainingItemCount(); rest != nil {
			remaining = append(remaining, *rest+total)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
		options.ResourceVersion, options.ResourceVersionMatch = "", ""
	}
	for _, sum := range remaining {
		Expect(sum).To(Equal(total), "remainingItemCount counts objects of other spaces")
	}
	slices.Sort(found)
	return found
}

// initial returns what a watch delivers up to the end of the initial events.
func initial(ctx context.Context, n tenant.Name, events watch.Interface) []string {
	GinkgoHelper()
	var found []string
	for {
		select {
		case event, ok := <-events.ResultChan():
			Expect(ok).To(BeTrue(), "the watch has ended")
			Expect(event.Type).NotTo(Equal(watch.Error), "%v", event.Object)
			object, err := meta.Accessor(event.Object)
			Expect(err).NotTo(HaveOccurred())
			if event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				slices.Sort(found)
				return found
			}
			Expect(event.Type).To(Equal(watch.Added))
			found = append(found, describe(n, event.Object)...)
		case <-time.After(time.Minute):
			Fail("the initial events have no end")
		case <-ctx.Done():
			Fail("the initial events have no end")
		}
	}
}

// newer notes a resource version and reports whether it does not go back.
func newer(last *uint64, version string) bool {
	GinkgoHelper()
	next := uint64(0)
	_, err := fmt.Sscan(version, &next)
	Expect(err).NotTo(HaveOccurred())
	ok := next >= *last
	*last = next
	return ok
}
