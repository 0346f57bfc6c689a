"""A mail-like load: messages are delivered to two maildirs, read, marked as seen, and in part removed."""
import mailbox, os, random, sys, time
random.seed(7)
boxes = [mailbox.Maildir(os.path.join(sys.argv[1], user), create=True) for user in ("ann", "ben")]
for turn in range(400):
    box = random.choice(boxes)
    message = mailbox.MaildirMessage()
    message["Subject"] = "message %d" % turn
    message.set_payload("x" * int(random.lognormvariate(8, 1.3)))
    key = box.add(message)
    with open(os.path.join(box._path, box._lookup(key)), "rb") as file:
        os.fsync(file.fileno())
    if turn % 3 == 0:
        for key in list(box.keys())[-3:]:
            message = box[key]
            message.set_subdir("cur"); message.add_flag("S")
            box[key] = message
    if turn % 5 == 0 and len(box) > 20:
        for key in random.sample(list(box.keys()), 4):
            box.discard(key)
    time.sleep(random.expovariate(40))
