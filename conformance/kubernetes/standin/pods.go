package standin

import (
	"context"
	"errors"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"titan.test/kubernetes/cluster"
)

// lookAtPods schedules those that have no node, and shows the kubelet the others.
func (s *Standin) lookAtPods(ctx context.Context) error {
	var failed []error
	there := map[types.UID]bool{}
	for _, pod := range s.pods.all() {
		there[pod.UID] = true
		if pod.Spec.NodeName == "" {
			failed = append(failed, s.bind(ctx, pod))
		} else {
			failed = append(failed, s.kubelet.look(ctx, pod))
		}
	}
	s.kubelet.forgetOthers(there)
	return errors.Join(failed...)
}

func (s *Standin) bind(ctx context.Context, pod *core.Pod) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &core.Binding{
		ObjectMeta: meta.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     core.ObjectReference{Kind: "Node", Name: signature},
	}, meta.CreateOptions{})
	return ignoreOld(err)
}

// look starts the process of a pod, says how it is, and removes the pod once it is to go and its process has gone.
func (k *kubelet) look(ctx context.Context, pod *core.Pod) error {
	process := k.running[pod.UID]
	if pod.DeletionTimestamp != nil {
		return k.end(ctx, pod, process)
	}
	if process == nil {
		started, err := k.start(ctx, pod)
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		k.running[pod.UID] = started
		process = started
	}
	if process.hasEnded() {
		delete(k.running, pod.UID)
		return fmt.Errorf("pod %s/%s has ended: %s", pod.Namespace, pod.Name, process.log.last())
	}
	return k.report(ctx, pod, process)
}

func (k *kubelet) end(ctx context.Context, pod *core.Pod, process *process) error {
	if process != nil && !process.hasEnded() {
		process.end(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		return nil
	}
	delete(k.running, pod.UID)
	at := meta.NewDeleteOptions(0)
	at.Preconditions = meta.NewUIDPreconditions(string(pod.UID))
	return ignoreOld(k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *at))
}

// forgetOthers ends what belongs to pods that were removed without waiting for it.
func (k *kubelet) forgetOthers(there map[types.UID]bool) {
	for uid, process := range k.running {
		if !there[uid] {
			process.kill()
			delete(k.running, uid)
		}
	}
}

func (k *kubelet) report(ctx context.Context, pod *core.Pod, process *process) error {
	ready := process.isReady()
	if pod.Status.PodIP == process.address && isReady(pod) == ready {
		return nil
	}
	seen := pod.DeepCopy()
	seen.Status = status(pod, process.address, ready)
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, seen, meta.UpdateOptions{})
	return ignoreOld(err)
}

func status(pod *core.Pod, address string, ready bool) core.PodStatus {
	now := meta.Now()
	status := core.PodStatus{
		Phase:     core.PodRunning,
		HostIP:    cluster.NodeAddress,
		HostIPs:   []core.HostIP{{IP: cluster.NodeAddress}},
		PodIP:     address,
		PodIPs:    []core.PodIP{{IP: address}},
		StartTime: &now,
		QOSClass:  pod.Status.QOSClass,
	}
	for _, kind := range []core.PodConditionType{core.PodScheduled, core.PodInitialized} {
		status.Conditions = append(status.Conditions, condition(kind, true, now))
	}
	for _, kind := range []core.PodConditionType{core.ContainersReady, core.PodReady} {
		status.Conditions = append(status.Conditions, condition(kind, ready, now))
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, core.ContainerStatus{
			Name:    container.Name,
			Image:   container.Image,
			Ready:   ready,
			Started: &ready,
			State:   core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

func condition(kind core.PodConditionType, holds bool, since meta.Time) core.PodCondition {
	status := core.ConditionFalse
	if holds {
		status = core.ConditionTrue
	}
	return core.PodCondition{Type: kind, Status: status, LastTransitionTime: since}
}

func isReady(pod *core.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == core.PodReady {
			return condition.Status == core.ConditionTrue
		}
	}
	return false
}
