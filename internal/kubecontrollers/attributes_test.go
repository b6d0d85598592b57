package kubecontrollers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// TestVolumeAttributesClasses checks that a class which is deleted is held by what names it in its own space, for as
// long as that does, and by nothing in another one.
func TestVolumeAttributesClasses(t *testing.T) {
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // they wait by the time of other tests

	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, UID: "u"} }
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "c", UID: "u"}}
	class := func(name string) *string { return &name }
	for name, tc := range map[string]struct {
		holder runtime.Object
		end    func(context.Context, kubernetes.Interface) error
	}{
		"a claim": {
			holder: &corev1.PersistentVolumeClaim{ObjectMeta: claim.ObjectMeta, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: class("gold")}},
			end: func(ctx context.Context, c kubernetes.Interface) error {
				return c.CoreV1().PersistentVolumeClaims("a|ns").Delete(ctx, "c", metav1.DeleteOptions{})
			},
		},
		"a claim whose volume has it": {
			holder: &corev1.PersistentVolumeClaim{ObjectMeta: claim.ObjectMeta, Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: class("iron")},
				Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: class("gold")}},
			end: func(ctx context.Context, c kubernetes.Interface) error {
				_, err := c.CoreV1().PersistentVolumeClaims("a|ns").Update(ctx, claim, metav1.UpdateOptions{})
				return err
			},
		},
		"a claim that is about to have it": {
			holder: &corev1.PersistentVolumeClaim{ObjectMeta: claim.ObjectMeta, Status: corev1.PersistentVolumeClaimStatus{
				ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold"}}},
			end: func(ctx context.Context, c kubernetes.Interface) error {
				_, err := c.CoreV1().PersistentVolumeClaims("a|ns").Update(ctx, claim, metav1.UpdateOptions{})
				return err
			},
		},
		"a volume": {
			holder: &corev1.PersistentVolume{ObjectMeta: named("a|v"), Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: class("gold")}},
			end: func(ctx context.Context, c kubernetes.Interface) error {
				return c.CoreV1().PersistentVolumes().Delete(ctx, "a|v", metav1.DeleteOptions{})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				objects := []runtime.Object{tc.holder}
				for _, name := range []string{"a|gold", "b|gold", "gold"} {
					meta := named(name)
					meta.DeletionTimestamp, meta.Finalizers = new(metav1.Now()), []string{"kubernetes.io/vac-protection"}
					objects = append(objects, &storagev1.VolumeAttributesClass{ObjectMeta: meta})
				}
				views, server := fake.NewClientset(objects...), &requested{}
				e := &environment{shared: &shared{informers: informers.NewSharedInformerFactory(views, 0)}, debts: newDebts(1),
					client: kubernetes.NewForConfigOrDie(&rest.Config{Transport: server, QPS: -1})}
				controller, err := builderOf("vac-protection").build(ctx, e)
				if err != nil {
					t.Fatal(err)
				}
				e.informers.Start(ctx.Done())
				go controller.Run(ctx, 1)
				check := func(when string, want map[string]bool) {
					t.Helper()
					time.Sleep(time.Minute)
					synctest.Wait()
					for class, want := range want {
						if got := server.concerns(class); got != want {
							t.Errorf("%s, class %s is let go: %v", when, class, got)
						}
					}
				}
				check("while a's is named", map[string]bool{"a|gold": false, "b|gold": true, "gold": true})
				if err := tc.end(ctx, views); err != nil {
					t.Fatal(err)
				}
				check("afterwards", map[string]bool{"a|gold": true})
				cancel()
				e.informers.Shutdown()
			})
		})
	}
}
