package kubecontrollers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/utils/ptr"
)

// TestBelieves lets the controller come to counts of a quota whose versions are
// charged 5 pods.
func TestBelieves(t *testing.T) {
	const settle = time.Minute
	type counted struct {
		version, pods string
		after         time.Duration
		want          bool
	}
	for name, counts := range map[string][]counted{
		"once":                {{version: "1", pods: "4"}},
		"twice":               {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle, want: true}},
		"more, twice":         {{version: "1", pods: "6"}, {version: "1", pods: "6", after: settle, want: true}},
		"twice too soon":      {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle / 2}},
		"again and again":     {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle / 2}, {version: "1", pods: "4", after: settle / 2, want: true}},
		"another count":       {{version: "1", pods: "4"}, {version: "1", pods: "3", after: settle}},
		"charged in between":  {{version: "1", pods: "4"}, {version: "2", pods: "4", after: settle}},
		"and then no more so": {{version: "1", pods: "4"}, {version: "2", pods: "4", after: settle}, {version: "2", pods: "4", after: settle, want: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCarefulQuotas(nil, nil)
			c.settle = settle
			now := time.Now()
			for i, step := range counts {
				now = now.Add(step.after)
				base := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|team", Name: "q", ResourceVersion: step.version}}
				base.Status.Used = corev1.ResourceList{"pods": resource.MustParse("5")}
				count := base.DeepCopy()
				count.Status.Used = corev1.ResourceList{"pods": resource.MustParse(step.pods)}
				if got := c.believes(base, count, now); got != step.want {
					t.Errorf("count %d is believed: %t", i, got)
				}
			}
		})
	}
}

// TestLinear checks that linear evaluators count what upstream's do, with random pods and quotas.
func TestLinear(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := func() corev1.ResourceList {
		resources := corev1.ResourceList{}
		for range random.IntN(4) {
			resources[corev1.ResourceName(fmt.Sprintf("example.com/r%d", random.IntN(5)))] = *resource.NewQuantity(int64(random.IntN(9)), resource.DecimalSI)
		}
		return resources
	}
	var objects []runtime.Object
	for i := range 200 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint(i)}, Spec: corev1.PodSpec{
			PriorityClassName: []string{"", "high", "low", "other"}[random.IntN(4)],
			Containers:        []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list(), Limits: list()}}},
		}}
		class := func() *string { return ptr.To([]string{"", "high", "low", "other"}[random.IntN(4)]) }
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: pod.ObjectMeta, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: class()},
			Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: class()}}
		if random.IntN(2) == 0 {
			claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: *class()}
		}
		objects = append(objects, claim, pod, &corev1.Service{ObjectMeta: pod.ObjectMeta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}})
	}
	f := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	listers := quotageneric.ListerFuncForResourceFunc(f.ForResource)
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(listers, f)
	if err != nil {
		t.Fatal(err)
	}
	theirs := configuration.Evaluators()
	ours := linearly(slices.Clone(theirs), listers)
	for _, e := range theirs {
		if _, err := listers(e.GroupResource().WithVersion("v1")); err != nil {
			t.Fatal(err)
		}
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	high := &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"}}}}
	of := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) quota.UsageStatsOptions {
		return quota.UsageStatsOptions{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: scope, Operator: operator, Values: values}}}}
	}
	const byPriority, byVolume = corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass
	for _, options := range []quota.UsageStatsOptions{
		of(byPriority, corev1.ScopeSelectorOpIn, "high", "low"), of(byPriority, corev1.ScopeSelectorOpNotIn, "high", "low"),
		of(byPriority, corev1.ScopeSelectorOpIn, "a", "b"), of(byPriority, corev1.ScopeSelectorOpNotIn, "a", "b"),
		of(byPriority, corev1.ScopeSelectorOpExists), of(byPriority, corev1.ScopeSelectorOpDoesNotExist),
		of(byVolume, corev1.ScopeSelectorOpIn, "high", "low"), of(byVolume, corev1.ScopeSelectorOpNotIn, "high", "low", "a"),
		of(byVolume, corev1.ScopeSelectorOpIn, "a", "b"), of(byVolume, corev1.ScopeSelectorOpNotIn, "a", "b"),
		{}, {ScopeSelector: high}, {Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}},
		{ScopeSelector: high, Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}},
	} {
		options.Namespace = "a|ns"
		for i := range theirs {
			options.Resources = theirs[i].MatchingResources([]corev1.ResourceName{"pods", "services", "persistentvolumeclaims", "services.loadbalancers", "configmaps",
				"requests.example.com/r0", "requests.example.com/r1", "requests.example.com/r7", "count/services"})
			want, err := theirs[i].UsageStats(options)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ours[i].UsageStats(options)
			if err != nil {
				t.Fatal(err)
			}
			if want := quota.Mask(want.Used, options.Resources); !quota.Equals(got.Used, want) {
				t.Errorf("%s with %v: got %v, want %v", theirs[i].GroupResource(), options, got.Used, want)
			}
			if len(got.Used) != len(options.Resources) {
				t.Errorf("%s: counts %d resources, and is asked for %d", theirs[i].GroupResource(), len(got.Used), len(options.Resources))
			}
		}
	}
}

// TestQuotasOfNamespaces checks that the controller hears nothing of a tenant's quota, although it takes turns.
func TestQuotasOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := informers.NewSharedInformerFactory(fake.NewClientset(
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a|default", Name: "tenant-quota"}},
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a|default", Name: "of-the-namespace"}}), 0)
		var heard []string
		if _, err := offeredIfInTurn(newDebts(1), namespaceQuotas(f.Core().V1().ResourceQuotas()).Informer(), corelisters.NewResourceQuotaLister).Informer().AddEventHandlerWithResyncPeriod(
			cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { heard = append(heard, obj.(*corev1.ResourceQuota).Name) }}, quotaResync); err != nil {
			t.Fatal(err)
		}
		f.Start(ctx.Done())
		synctest.Wait()
		if diff := cmp.Diff([]string{"of-the-namespace"}, heard); diff != "" {
			t.Error(diff)
		}
		cancel()
		f.Shutdown()
	})
}

// TestReplenished checks of which quotas upstream's controller thinks whenever an object in their namespace has ended.
func TestReplenished(t *testing.T) {
	quotas := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ResourceQuotas()
	fill := func(namespace string, each ...int) {
		for i, limits := range each {
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}}
			q.Status.Hard = corev1.ResourceList{}
			for j := range limits {
				q.Status.Hard[corev1.ResourceName(fmt.Sprintf("count/r%d.example.com", j))] = resource.MustParse("1")
			}
			if err := quotas.Informer().GetIndexer().Add(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("a|few", 1, maxReplenished-1)
	fill("a|many", 1, maxReplenished)
	fill("many", 1, maxReplenished)
	lister := replenished{quotas}.Lister()
	for namespace, want := range map[string]int{"a|few": 2, "a|many": 0, "many": 2, "a|none": 0} {
		found, err := lister.ResourceQuotas(namespace).List(labels.Everything())
		if err != nil || len(found) != want {
			t.Errorf("in %s are %d, %v, want %d", namespace, len(found), err, want)
		}
	}
	if _, err := lister.ResourceQuotas("a|many").Get("1"); err != nil {
		t.Error(err)
	}
	if found, err := lister.List(labels.Everything()); err != nil || len(found) != 6 {
		t.Errorf("the resync finds %d, %v, want 6", len(found), err)
	}
}
