package spaces

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"
)

// TestLongMessages checks that a tenant's texts are bounded in what controllers are refused, and in what they write,
// and whole in objects that they read.
func TestLongMessages(t *testing.T) {
	long := strings.Repeat("x", 3*maxMessage)
	said := appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"},
		Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Message: long}}},
	}
	var written appsv1.ReplicaSet
	var patched struct{ Message string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.Method {
		case http.MethodPatch:
			if err := json.NewDecoder(req.Body).Decode(&patched); err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(said)
		case http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: long})
		case http.MethodPost:
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: long})
		case http.MethodPut:
			if err := json.NewDecoder(req.Body).Decode(&written); err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(written)
		default:
			_ = json.NewEncoder(w).Encode(said)
		}
	}))
	defer server.Close()
	of := func(options ...Option) appsclient.ReplicaSetInterface {
		return kubernetes.NewForConfigOrDie(NewClientConfig(&rest.Config{Host: server.URL}, options...)).AppsV1().ReplicaSets("a|ns")
	}
	sets := of(WithShortMessages())
	read, err := sets.Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil || read.Status.Conditions[0].Message != long {
		t.Fatalf("an object is not read as it is: %v", err)
	}
	if _, err := sets.Create(t.Context(), read, metav1.CreateOptions{}); err == nil {
		t.Error("it is not refused")
	} else if len(err.Error()) != maxMessage {
		t.Errorf("it is refused with %d bytes", len(err.Error()))
	}
	if _, err := sets.UpdateStatus(t.Context(), read, metav1.UpdateOptions{}); err != nil || len(written.Status.Conditions[0].Message) != maxMessage {
		t.Errorf("%d bytes are written, %v", len(written.Status.Conditions[0].Message), err)
	}
	if err := sets.Delete(t.Context(), "x", metav1.DeleteOptions{}); err == nil || len(err.Error()) != maxMessage {
		t.Errorf("it is not found with %v", err)
	}
	for name, tc := range map[string]struct {
		options []Option
		want    int
	}{"controllers": {[]Option{WithShortMessages()}, maxMessage}, "others": {nil, len(long)}} { // as recorders do: it names no space
		patch := []byte(`{"message":"` + long + `"}`)
		if _, err := of(tc.options...).Patch(t.Context(), "x", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil || len(patched.Message) != tc.want {
			t.Errorf("%s: %d bytes are patched, %v", name, len(patched.Message), err)
		}
	}
	if _, err := of().UpdateStatus(t.Context(), read, metav1.UpdateOptions{}); err != nil || written.Status.Conditions[0].Message != long {
		t.Errorf("%d bytes of others' are written, %v", len(written.Status.Conditions[0].Message), err)
	}
}
