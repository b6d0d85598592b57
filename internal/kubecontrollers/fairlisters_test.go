package kubecontrollers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/process/workers"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/signing"
	"github.com/tenantry/tenantry/internal/tenant"
)

// requested is a server that has nothing, and the paths that it is asked for.
type requested struct {
	mu    sync.Mutex
	paths []string
}

// RoundTrip implements http.RoundTripper.
func (r *requested) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, req.URL.Path+"/")
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))}, nil
}

// concerns reports whether the server has been asked for something of a namespace, or of a name without one.
func (r *requested) concerns(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.paths, func(path string) bool { return strings.Contains(path, "/"+namespace+"/") })
}

// podDiscovery knows of pods.
type podDiscovery struct{ *fakediscovery.FakeDiscovery }

// ServerPreferredNamespacedResources implements discovery.DiscoveryInterface.
func (podDiscovery) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "pods", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"create", "list", "watch", "delete"}}}}}, nil
}

// otherwiseFair are the controllers that are offered nothing which takes turns, and why.
var otherwiseFair = map[string]string{
	"certificate-request-cleaner":      "looks at all requests once an hour, and nobody waits for it",
	"pod-certificate-request-cleaner":  "looks at all requests every five minutes, and nobody waits for it",
	"garbage-collector":                "its requests take turns (TestRequestsTakeTurns)",
	"clusterrole-aggregation":          "its lister takes turns by estimated time (TestAggregationTakesTurns)",
	"validatingadmissionpolicy-status": "its lister takes turns by estimated time (TestPoliciesAreShort)",
	"pod-garbage-collector":            "has a second for each space (TestUnscheduledPods)",
}

// issuingServer has what is needed to make tokens and certificates.
type issuingServer struct{ fakeServer }

func (issuingServer) RootCA() []byte { return []byte("ca") }
func (issuingServer) LegacyTokens() *authentication.LegacyTokens {
	return &authentication.LegacyTokens{}
}
func (issuingServer) Signing() signing.Config { return signing.Config{CertFile: "none"} }

// TestControllersTakeTurns checks that the controllers are offered what takes turns: that their workers are measured,
// in spaces alone. Whoever adds a controller has to decide what keeps a tenant from taking all its workers.
func TestControllersTakeTurns(t *testing.T) {
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // they wait by the time of other tests

	silent := map[string]bool{"cronjob": true}
	web := map[string]string{"app": "web"}
	selector, template := &metav1.LabelSelector{MatchLabels: web}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}}
	activeNamespace := func(meta metav1.ObjectMeta) runtime.Object {
		meta.Name, meta.Namespace = meta.Namespace, ""
		return &corev1.Namespace{ObjectMeta: meta, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	}
	takeTurns := map[string]func(metav1.ObjectMeta) runtime.Object{
		"serviceaccount": activeNamespace,
		"root-ca":        activeNamespace,
		"serviceaccount-token": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
		},
		"certificate-signing": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Name, meta.Namespace = meta.Namespace, ""
			return &certificatesv1.CertificateSigningRequest{ObjectMeta: meta,
				Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientSignerName},
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
					{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}}}
		},
		"pv-protection": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Name, meta.Namespace = meta.Namespace, ""
			return &corev1.PersistentVolume{ObjectMeta: meta}
		},
		"vac-protection": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Name, meta.Namespace = meta.Namespace, ""
			return &storagev1.VolumeAttributesClass{ObjectMeta: meta}
		},
		"namespace": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Name, meta.Namespace, meta.DeletionTimestamp = meta.Namespace, "", new(metav1.Now())
			return &corev1.Namespace{ObjectMeta: meta, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}}
		},
		"resourcequota": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: {}}}}
		},
		"replicaset": func(meta metav1.ObjectMeta) runtime.Object {
			return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template}}
		},
		"replication": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(1)), Selector: web, Template: &template}}
		},
		"statefulset": func(meta metav1.ObjectMeta) runtime.Object {
			return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(1)), Selector: selector, Template: template}}
		},
		"job": func(meta metav1.ObjectMeta) runtime.Object {
			return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(1)), Suspend: new(false), CompletionMode: new(batchv1.NonIndexedCompletion), Selector: selector, Template: template}}
		},
		"deployment": func(meta metav1.ObjectMeta) runtime.Object {
			return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: selector, Template: template,
				Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}}
		},
		"endpoints": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: web}}
		},
		"endpointslice": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: web, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
		},
		"endpointslice-mirroring": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}}}}
		},
		"ttl-after-finished": func(meta metav1.ObjectMeta) runtime.Object {
			meta.Annotations, meta.CreationTimestamp = map[string]string{}, metav1.Unix(0, 0)
			return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(0))}, Status: batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}}}}
		},
		"pvc-protection": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.PersistentVolumeClaim{ObjectMeta: meta}
		},
		"ephemeral-volume": func(meta metav1.ObjectMeta) runtime.Object {
			return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}}}}}
		},
		"disruption": func(meta metav1.ObjectMeta) runtime.Object {
			return &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: new(intstr.FromInt32(1))}}
		},
		"cronjob": func(meta metav1.ObjectMeta) runtime.Object {
			return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * * *"}}
		},
		"horizontal-pod-autoscaler": func(meta metav1.ObjectMeta) runtime.Object {
			return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "not/a/version"}}}
		},
	}
	for _, c := range controllers {
		if takes, otherwise := takeTurns[c.name] != nil, otherwiseFair[c.name] != ""; takes == otherwise {
			t.Errorf("controller %s takes turns: %v, is fair otherwise: %v", c.name, takes, otherwise)
		}
	}
	for name, object := range takeTurns {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var objects []runtime.Object
				for _, space := range []string{"a|", "b|", ""} {
					meta := metav1.ObjectMeta{Namespace: space + "ns", Name: "x", UID: "u"}
					objects = append(objects, object(meta))
					if name == "endpointslice-mirroring" {
						objects = append(objects, &corev1.Service{ObjectMeta: meta})
					}
				}
				server := &requested{}
				config := &rest.Config{Transport: server, QPS: -1}
				e := &environment{shared: &shared{server: issuingServer{}, informers: informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0), started: make(chan struct{}),
					metadataInformers: metadatainformer.NewSharedInformerFactory(nil, 0), unwrapped: config, discovery: podDiscovery{&fakediscovery.FakeDiscovery{}}},
					debts: newDebts(1), client: kubernetes.NewForConfigOrDie(config)}
				controller, err := builderOf(name).build(ctx, e)
				if err != nil {
					t.Fatal(err)
				}
				e.informers.Start(ctx.Done())
				close(e.started)
				go controller.Run(ctx, 1)
				time.Sleep(time.Minute)
				synctest.Wait()
				e.debts.mu.Lock()
				measured := []tenant.Name{e.debts.latest[0].tenant, e.debts.latest[1].tenant}
				e.debts.mu.Unlock()
				if diff := cmp.Diff([]tenant.Name{"a", "b"}, slices.Sorted(slices.Values(measured))); diff != "" {
					t.Error(diff)
				}
				for _, namespace := range []string{"a|ns", "b|ns", "ns"} {
					if !silent[name] && !server.concerns(namespace) {
						t.Errorf("the controller asks for nothing in %s, but for %v", namespace, server.paths)
					}
				}
				cancel()
				e.informers.Shutdown()
			})
		})
	}
}

// TestMirroredEndpoints checks that the controller gets no addresses of Endpoints in a space that have too many.
func TestMirroredEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var objects []runtime.Object
		for _, namespace := range []string{"a|ns", "a|large", "large"} {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: "u"}
			subset := corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 1}}}
			if namespace != "a|ns" {
				subset.Ports = slices.Repeat(subset.Ports, spacepolicy.MaxEndpoints+1)
			}
			objects = append(objects, &corev1.Service{ObjectMeta: meta}, &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{subset}})
		}
		server := &requested{}
		e := &environment{shared: &shared{informers: informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)}, debts: newDebts(1),
			client: kubernetes.NewForConfigOrDie(&rest.Config{Transport: server, QPS: -1})}
		controller, err := builderOf("endpointslice-mirroring").build(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		e.informers.Start(ctx.Done())
		go controller.Run(ctx, 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for namespace, want := range map[string]bool{"a|ns": true, "a|large": false, "large": true} {
			if got := server.concerns(namespace); got != want {
				t.Errorf("Endpoints in %s are mirrored: %v", namespace, got)
			}
		}
		cancel()
		e.informers.Shutdown()
	})
}

// TestLongItems checks that a worker sends no more requests for an item after some time, if its controller goes on
// where it was, and reads no more if what it writes says that.
func TestLongItems(t *testing.T) {
	config := &rest.Config{Transport: &requested{}}
	e, err := newShared(fakeServer{config: config}, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	type refused struct{ read, write bool }
	for name, later := range map[string]refused{
		"cronjob": {true, true}, "deployment": {true, true}, "statefulset": {true, true}, "endpointslice-mirroring": {true, true},
		"disruption": {true, false}, "namespace": {}, "resourcequota": {}, "horizontal-pod-autoscaler": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			own, err := e.environment(builderOf(name))
			if err != nil {
				t.Fatal(err)
			}
			send := func(want refused) {
				t.Helper()
				pods := own.client.CoreV1().Pods("a|ns")
				_, read := pods.Get(t.Context(), "p", metav1.GetOptions{})
				for err, refused := range map[error]bool{read: want.read, pods.Delete(t.Context(), "p", metav1.DeleteOptions{}): want.write} {
					if apierrors.IsTooManyRequests(err) != refused || apierrors.IsNotFound(err) == refused {
						t.Errorf("%s: got %v", name, err)
					}
				}
			}
			queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "long"})
			defer queue.ShutDown()
			for range 2 {
				queue.Add("item")
				item, _ := queue.Get()
				workers.OnDone(func(time.Duration, bool) {})
				send(refused{})
				time.Sleep(maxWorked)
				send(later)
				queue.Done(item)
			}
			send(refused{}) // of who is no worker
		})
	}
}

// TestOnlyWorkers checks that the only worker of a controller waits for a tenant's webhooks for a short time.
func TestOnlyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}
		e, err := newShared(fakeServer{config: config}, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range controllers {
			own, err := e.environment(b)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err = own.client.CoreV1().Pods("a|ns").Delete(t.Context(), "p", metav1.DeleteOptions{})
			if took := time.Since(began); err == nil || (b.workers == 1) != (took <= oneWorkerTimeout) {
				t.Errorf("%s: %v after %v", b.name, err, took)
			}
		}
	})
}

func builderOf(name string) builder {
	return controllers[slices.IndexFunc(controllers, func(c builder) bool { return c.name == name })]
}

// TestRequestsTakeTurns checks that each request takes turns of a controller that gets no items from a
// lister.
func TestRequestsTakeTurns(t *testing.T) {
	config := &rest.Config{Transport: &requested{}}
	e, err := newShared(fakeServer{config: config}, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"garbage-collector": true, "deployment": false} {
		own, err := e.environment(builderOf(name))
		if err != nil {
			t.Fatal(err)
		}
		own.debts.charge("a", time.Minute)
		ask := func(namespace string, refused bool) {
			t.Helper()
			if _, err := own.client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{}); apierrors.IsTooManyRequests(err) != refused || apierrors.IsNotFound(err) == refused {
				t.Errorf("%s in %s: got %v", name, namespace, err)
			}
		}
		ask("a|ns", false) // nobody else has anything to do
		ask("b|ns", false)
		own.debts.charge("b", time.Millisecond)
		ask("a|ns", refused)
		ask("b|ns", false)
	}
}

// TestRequestsAreCharged checks that a tenant owes the time of the requests of those controllers alone whose workers
// are not measured.
func TestRequestsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Transport: roundtrip.Func(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return nil, errors.New("no answer")
		})}
		e, err := newShared(fakeServer{config: config}, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range controllers {
			own, err := e.environment(b)
			if err != nil {
				t.Fatal(err)
			}
			_, err = own.client.CoreV1().Pods("a|ns").Get(t.Context(), "p", metav1.GetOptions{})
			if owes := own.debts.debt("a"); err == nil || (owes > 0) != (b.name == "garbage-collector") {
				t.Errorf("%s: owes %v after %v", b.name, owes, err)
			}
		}
	})
}
